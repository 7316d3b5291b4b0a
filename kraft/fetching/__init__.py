"""Fetches by HTTP what servers say that the operator has named: within bounds of bytes and time."""
