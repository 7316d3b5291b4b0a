"""A node as a process: start, stop, sockets and log."""
