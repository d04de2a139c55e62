"""Hardware counters of kernels: what NVIDIA Nsight Compute (`ncu`) counts, how it is started, and how its reports are read."""
