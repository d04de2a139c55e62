"""The machine under test: its device, its telemetry, and other load on the host."""
