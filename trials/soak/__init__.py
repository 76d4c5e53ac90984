"""Load and soak: exact counts, bounded memory, and everything back to where it was."""
