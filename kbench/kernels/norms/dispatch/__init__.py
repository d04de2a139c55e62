"""The dispatch of the norms: kernels, their blocks and their threads, by the shape, the dtype and the device.

These files only compute numbers: they need neither Triton nor a device.
"""
