"""Trials: longer and rougher than tests. Each has a make target of its own, and a short form in the tests."""
