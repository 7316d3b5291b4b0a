"""Who a node is: whose its log directories are, and what it proves itself with to other nodes."""
