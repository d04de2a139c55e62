"""`kbench compare --resolve`: measures the unclear rows of two results files again."""
