"""Signed tokens of authorization servers (JWT): their keys, fetched and read, and which tokens are valid."""
