"""Text on its way to a reader: printable, without secrets, in the terminal or in a stream that takes everything."""
