"""What executes a plan: one device, several devices of this host, or the workers of a dask cluster."""
