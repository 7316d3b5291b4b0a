"""Finds out what is wrong with a cluster, and whether its nodes may be restarted; through the client."""
