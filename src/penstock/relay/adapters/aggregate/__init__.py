"""Several upstreams behind one link: what is known of each, a session's links to them, and who gets what."""
