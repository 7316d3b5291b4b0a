"""The cluster as a client reaches it: connections, any broker, leaders, coordinators, the controller, metadata."""
