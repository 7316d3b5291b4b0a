"""Groups of the consumer group protocol (KIP-848): their state, their records, and what is decided on them.

A group is an immutable value that its records replay into. `requests` has what members and tools ask for; `heartbeats`
and `departures` decide records, a response and timers; `reconciliation` is the state machine of one member. Nothing is
volatile: what is not in the records are only deadlines, which the host keeps.

Differences from Kafka 4.x, each on purpose:

- A heartbeat of the previous epoch is answered, but releases no partitions: it may be a late copy.
- A static member that missed the response to its join may join again, under the same member id, at once.
- The metadata is compared in every heartbeat; its hash is another one, and leaves out racks.
- Of two assignors that equally many members ask for, the first in the alphabet is used; in Kafka, any.

Not supported yet: members of the classic protocol in such a group, and so the upgrade and downgrade of groups that
have members; and the resolution of regular expressions, which the host will do: `regexes` takes the result.
"""
