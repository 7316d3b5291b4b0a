"""Metrics that clients push: which client may push when, and what of it is kept for scrapes."""
