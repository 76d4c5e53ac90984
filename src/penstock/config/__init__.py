"""What the user asked for: options and files, read, checked and merged."""
