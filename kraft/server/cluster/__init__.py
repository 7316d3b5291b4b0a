"""A broker's view of its cluster: the metadata, its snapshots, and the client of the active controller."""
