"""A node's configuration file: read, checked, and handed on as frozen values."""
