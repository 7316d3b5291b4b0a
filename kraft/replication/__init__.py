"""Replication of one partition: state machines of the leader and the follower, without disk, network or clock."""
