"""Pictures of characters, for a terminal."""
