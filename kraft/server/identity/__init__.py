"""Identity of a node: the owner of its log directories, and its credentials for other nodes."""
