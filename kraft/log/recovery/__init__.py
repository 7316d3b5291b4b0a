"""What a log knows beside its segments, and how all of it is found again when the log is opened."""
