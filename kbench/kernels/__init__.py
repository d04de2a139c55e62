"""Code that operators share: CUDA headers, the extension builder, helpers for Triton kernels."""
