"""The contract between a coordinator's state machine and its host.

A shard is the state machine of one partition of an internal topic. Its host runs on the broker that leads that
partition. The state has two parts, both immutable:

- what is replicated: the result of replaying the records of the partition, and nothing else;
- what is volatile: who waits for a response, rebalances under way, deadlines. It ends with the leadership.

The host decides one request after the other, each on the state that includes all earlier decisions. It appends the
records of a decision to the partition, replays them, and sends the replies once everything decided so far is committed,
so that no reply shows what could still be lost. A marker that ends a transaction is appended and replayed in the same
order: its outcome counts for every later decision. If an append fails, the host continues from what is in the log: it
answers all waiting requests with an error that clients retry, and calls `loaded` again (`shard_machine.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Generic, NewType, Protocol, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from kraft.log.transactions.verification import VerificationGuard
from kraft.metadata.image import MetadataImage
from kraft.model.errors import Refusal

Replicated = TypeVar("Replicated")
Volatile = TypeVar("Volatile")
Command = TypeVar("Command")
Command_contra = TypeVar("Command_contra", contravariant=True)
Record = TypeVar("Record")
Other = TypeVar("Other")

Ticket = NewType("Ticket", int)
"""A waiting request. Its number is unique for as long as the host runs."""

TimerKey = Hashable
"""Names a timer by its purpose, such as the session of one member. One that is set again replaces the earlier one."""


class DecisionContext(Struct, frozen=True, kw_only=True):
    """Facts beside the state that a decision depends on."""

    now_ms: int
    """Wall time, for records: timestamps and expiry."""

    image: MetadataImage
    """The metadata that this broker has applied."""

    random_id: str
    """Another one in each decision, for ids that must be unique."""


class Reply(Struct, frozen=True):
    """Response to one request, or the refusal of it."""

    ticket: Ticket
    response: object | Refusal


class ShardWork(Protocol):
    """A long computation on immutable values, for a thread beside the shard. Its result comes back as commands."""

    def commands(self) -> Sequence[Any]:
        """Compute, and return the commands. Each is decided once the one before is committed.

        The response to a command is False if the shard does not want those after it.
        """

    def failed(self) -> Any:
        """Return the command for the case that it raised an error, or that one of the commands was refused."""


class TransactionalProducer(Struct, frozen=True, kw_only=True):
    """A producer, and what allows its records to begin a transaction in this partition."""

    producer_id: int
    epoch: int
    guard: VerificationGuard | None = None
    """Guard of the verification; None if the transaction was open in this partition already."""


class ShardDecision(Struct, Generic[Volatile, Record], frozen=True, kw_only=True):
    """Result of one command. A request without a reply waits: its ticket is in the volatile state."""

    volatile: Volatile
    """The volatile state after the records are replayed."""

    records: tuple[Record, ...] = ()
    """Appended together, or not at all, if the decision is atomic."""

    producer: TransactionalProducer | None = None
    """The producer whose transaction the records are part of. They are replayed by `replay_transactional`."""

    is_atomic: bool = True
    """If False, the records may be appended in several batches, and an error may leave only the first ones."""

    replies: tuple[Reply, ...] = ()
    timers: Mapping[TimerKey, int | None] = {}
    """Timers to set, in milliseconds from now; None removes one. A timer that ends is a command."""

    work: tuple[ShardWork, ...] = ()
    """Begins at once. What it brings may be late: the shard may have been loaded again meanwhile."""

    events: tuple[object, ...] = ()
    """What has happened, for the node's log. Reported when the decision is committed, and not if it is undone."""

    def with_volatile(self, volatile: Other) -> ShardDecision[Other, Record]:
        """Return the decision on a part of a shard as one of the shard, whose volatile state this is."""
        decision: Any = replace(self, volatile=volatile)
        whole: ShardDecision[Other, Record] = decision
        return whole


class Shard(Protocol[Replicated, Volatile, Command_contra, Record]):
    """Functions of one kind of coordinator. They may raise nothing but AssertionError, for a bug."""

    def empty(self) -> Replicated:
        """Return the replicated state of a partition without records."""

    def replay(self, replicated: Replicated, record: Record) -> Replicated:
        """Return the state after one record. Every sequence of records can be replayed, also one cut by compaction."""

    def replay_transactional(self, replicated: Replicated, producer_id: int, record: Record) -> Replicated:
        """Return the state after one record of a producer's transaction, which has not ended yet."""
        return replicated

    def replay_end_transaction(self, replicated: Replicated, producer_id: int, is_commit: bool) -> Replicated:
        """Return the state after the marker that ends a producer's transaction.

        After a commit it is as if the records of the transaction had been replayed by `replay` where they are in the
        log; after an abort, as if there were none of them. A load relies on this.
        """
        return replicated

    def loaded(self, replicated: Replicated, context: DecisionContext) -> ShardDecision[Volatile, Record]:
        """Decide what follows from the replicated state alone: a new volatile state, and its timers."""

    def decide(
        self,
        replicated: Replicated,
        volatile: Volatile,
        ticket: Ticket,
        command: Command_contra,
        context: DecisionContext,
    ) -> ShardDecision[Volatile, Record]:
        """Decide one request."""

    def timer_ended(
        self, replicated: Replicated, volatile: Volatile, key: TimerKey, context: DecisionContext
    ) -> ShardDecision[Volatile, Record]:
        """Decide what the end of a timer leads to."""


Encode = Callable[[Record], tuple[bytes, bytes | None]]
"""Returns key and value of a record."""

BytesMax = Callable[[], int]
"""Returns the current limit on the size of a batch."""


class Contents(Struct, frozen=True, kw_only=True):
    """What a shard holds, for the node's log."""

    counts: dict[str, int]
    named: list[str]
    """The first few that clients use now."""


def _unknown_contents(_: Any) -> Contents:
    return Contents(counts={}, named=[])


class ShardKind(Struct, Generic[Replicated, Volatile, Command, Record], frozen=True, kw_only=True):
    """A kind of shards: its state machine, and the format of its records."""

    shard: Shard[Replicated, Volatile, Command, Record]
    encode: Encode[Record]
    decode: Callable[[bytes | None, bytes | None], Record | None]
    """Returns None for a record of a kind or version that is not known. Raises KraftError for a damaged one."""

    contents: Callable[[Replicated], Contents] = _unknown_contents
    limits_sizes: bool = False
    """True if the shard itself refuses what would make its records too large; then it may write what it has allowed."""
