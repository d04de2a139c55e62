"""How pictures look, whatever they show: themes, colours and the spelling of names. Nothing here imports matplotlib."""
