"""A config file: YAML with source locations, its schema, and what its names mean on this machine."""
