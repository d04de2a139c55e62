"""The code of kernels for people to read: SASS, which is the machine code, and PTX, from which it is made."""
