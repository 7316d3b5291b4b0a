"""One stretch of a log on disk: its batches and its two indexes."""
