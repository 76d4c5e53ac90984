"""Which tools exist for a client."""
