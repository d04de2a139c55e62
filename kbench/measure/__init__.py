"""What runs inside the worker process: the only code of kbench that touches a device."""
