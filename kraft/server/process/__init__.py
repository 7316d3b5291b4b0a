"""A node as a process: its start and stop, its sockets, its log."""
