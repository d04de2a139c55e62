"""What the kernels of several operators share: CUDA headers, the extension builder, Triton row machinery."""
