"""What is remembered between messages."""
