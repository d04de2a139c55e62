"""Whole pictures: panels in a grid, with title, legend and caption around them."""
