"""A worker under supervision: restarted when it dies, and the provider found that took it down."""
