"""Patterns of RE2, judged before they run."""
