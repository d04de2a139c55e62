"""`kbench why`: what is known of a row, and the reasons for its time."""
