"""Where clients connect, one file a transport."""
