"""What recordings teach: what is usual, which rules would fit, which rule set does better. Lazy."""
