"""What can be benchmarked: a package per operator, a file per way of implementing it."""
