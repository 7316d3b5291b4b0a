"""Pages for administrators of access: users, ACLs, quotas, connected clients, and the audit."""
