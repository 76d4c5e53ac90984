"""What was learned from recordings, as far as rules ask it: pure, and frozen while a process runs."""
