"""Reads what a log's directory holds and says what is wrong where, without changing anything."""
