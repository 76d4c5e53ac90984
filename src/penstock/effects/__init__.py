"""What waits or leaves the process on behalf of a rule. Loaded only when a configuration names it."""
