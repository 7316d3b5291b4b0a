"""One partition's replication: what its leader and its followers decide, without a disk, a network or a clock."""
