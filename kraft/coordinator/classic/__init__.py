"""Groups of the classic protocol: JoinGroup, SyncGroup, Heartbeat and LeaveGroup, with Apache Kafka's semantics.

Each function takes a group as a value, and returns a decision with its next value. Differences from Kafka 4:

- A rebalance timeout of 0 is the session timeout; Kafka would remove the member before it can join again.
- Each request is answered. Kafka forgets a waiting one when its member sends another, or is removed.
- A group is recorded with its first complete generation; Kafka records an empty group when the first member comes.
- A static member that comes back before it has synced still has to sync; Kafka waits for the id that it had before.
- A static member that uses an id given to a dynamic one is refused; to Kafka this is an internal error.
- Where Kafka leaves a choice to the order in a hash map, the smallest id or name is chosen.
"""
