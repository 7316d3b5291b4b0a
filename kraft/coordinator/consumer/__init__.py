"""Groups of the consumer group protocol (KIP-848): their state, their records, and what is decided on them.

A group is an immutable value that its records replay into. `requests` has the requests of members and tools;
`heartbeats` and `departures` decide records, a response and timers, and so does `classic_members` for members that use
the classic protocol; `reconciliation` is the state machine of one member. Only deadlines are not in the records; the
host keeps them.

Differences from Kafka 4.x, each on purpose:

- A heartbeat of the previous epoch is answered, but releases no partitions: it may be a late copy.
- A static member that missed the response to its join may join again, under the same member id, at once.
- A commit for a partition that another member owns is refused, also in the member's current epoch: it is a late one.
- The metadata is compared in every heartbeat; its hash differs from Kafka's, and leaves out racks.
- Of two assignors that equally many members ask for, the first in the alphabet is used; in Kafka, any.
- A heartbeat of a classic member notices changed metadata, too.
- A classic member whose metadata is no subscription is refused; to Kafka this is an internal error.

Regular expressions are resolved by the host: `regexes` takes the result.
"""
