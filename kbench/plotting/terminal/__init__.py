"""Charts of characters, for a terminal."""
