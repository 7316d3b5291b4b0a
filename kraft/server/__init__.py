"""A node: the shell that connects the pure cores to processes, sockets, files and clocks."""
