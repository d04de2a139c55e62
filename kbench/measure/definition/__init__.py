"""What an operator defines for one case: its functions as the worker calls them, and the hash of their source."""
