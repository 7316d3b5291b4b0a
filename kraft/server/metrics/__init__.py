"""Metrics of a node: a table of what they are, a snapshot of their values, and its text."""
