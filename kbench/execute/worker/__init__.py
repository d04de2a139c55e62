"""The worker process as its parent sees it."""
