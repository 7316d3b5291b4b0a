"""Client quotas: which one holds for a client, how much the client uses, and how long it has to wait. Pure."""
