"""Where we connect from, one file a transport."""
