"""`kraft groups`: consumer groups, their members and their committed offsets."""
