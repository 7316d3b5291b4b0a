"""Committed offsets of the groups of one shard: the state, and the decisions on it.

The functions trust their caller. A handler has already checked:

- that the group id fits into the key of a record, which is 32,767 bytes;
- that the client may read or delete the group, and read the topic (GROUP_AUTHORIZATION_FAILED,
  TOPIC_AUTHORIZATION_FAILED);
- that a topic given by id exists (UNKNOWN_TOPIC_ID), that a topic given by name does, and for a commit also its
  partition (UNKNOWN_TOPIC_OR_PARTITION). A fetch by name asks for any topic: offsets may outlive their topic. A fetch
  of all topics finds names; the handler adds the ids for versions that have them, and leaves out what the client may
  not see.

The group has already checked that it exists, or that a commit without a generation may create it as a simple group
(GROUP_ID_NOT_FOUND, ILLEGAL_GENERATION), and that the member and its generation or epoch are current. A commit also
renews the session of a classic member. A fetch from a group that does not exist is answered as one from a group without
offsets.

Offsets of transactions are pending until the marker of their transaction (`pending_offsets.py`). The handler has
verified the transaction with its coordinator, and the host checks the producer with the log.

Source: Kafka's `OffsetMetadataManager`, KIP-211 (expiry), KIP-496 (OffsetDelete), KIP-848 (topic ids),
KIP-447 (transactions).
"""
