"""Integrity of a log's files: reads them and reports what is wrong where, without changing anything."""
