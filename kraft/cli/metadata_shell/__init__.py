"""`kraft metadata shell`: walk through a cluster's metadata as if it were files and directories."""
