"""What a worker measures once per session, for all its cases: the ceilings, what timers add, and the settled clock."""
