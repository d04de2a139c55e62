"""What runs in the parent process: a plan, something that yields finished cases, a writer. Never imports torch."""
