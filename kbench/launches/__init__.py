"""What one call of a provider launches on a device, and the file beside a results CSV that holds it."""
