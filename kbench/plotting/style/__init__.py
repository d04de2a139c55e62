"""How pictures look: themes, colours, markers, names."""
