"""Which rows are drawn, what runs along x, and what stands on which page and panel. Nothing here draws."""
