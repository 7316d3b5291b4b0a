"""Users, ACLs and quotas as administrators speak of them, for the command line and the console."""
