"""One gate for every door and both directions: only here the tool filter, the schema and rules are asked."""
