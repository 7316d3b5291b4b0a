"""What breaks things, on purpose and from a seed."""
