"""Several instances as one: who is there, whose a session is, and how a request gets to its owner. Lazy."""
