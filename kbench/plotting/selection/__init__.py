"""Which rows are drawn, and on which page and panel."""
