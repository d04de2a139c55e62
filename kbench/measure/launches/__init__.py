"""Records what a call launches: captures it in a CUDA graph, which runs nothing, and reads the graph."""
