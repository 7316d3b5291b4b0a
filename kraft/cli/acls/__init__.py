"""`kraft acls`: who may do what with topics, groups, transactional ids and the cluster."""
