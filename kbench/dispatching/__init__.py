"""From results to code: a function that names the fastest provider for a shape."""
