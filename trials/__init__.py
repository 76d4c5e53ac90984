"""Long trials of a running Penstock, each a package with a make target of its own."""
