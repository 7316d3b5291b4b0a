"""Segments: consecutive batches of a log in one file, with two indexes."""
