"""The metadata quorum: a replicated log of opaque payloads, with one leader at a time.

`port` is what the rest of the system sees. Behind it stand PySyncObj for elections and replication, and for all
that must not be left to it: our own synced journal, our own transport over gRPC, and filters between the two.
"""
