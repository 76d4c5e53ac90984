"""Files that people write, read into plain values that remember their lines."""
