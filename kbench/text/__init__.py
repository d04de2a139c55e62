"""Text on its way to a reader: printable, in the terminal or in a stream that takes everything."""
