"""`kbench bisect`: finds the commit that made a row slower or faster."""
