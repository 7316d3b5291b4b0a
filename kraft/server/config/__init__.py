"""A node's configuration file: read, checked, and returned as frozen values."""
