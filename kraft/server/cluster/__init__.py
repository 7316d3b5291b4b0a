"""What a broker knows of its cluster: the metadata, its snapshots, and the way to the active controller."""
