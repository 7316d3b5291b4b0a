"""One partition of `__consumer_offsets` with producers that commit offsets in transactions, and others that do not.

Coordinators crash, elections lose what is not committed, appends fail, requests and markers come late or twice. The
coordinator of transactions is a few fields here: it decides, and sends its markers until they are written.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import StrEnum
from random import Random
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from kraft.coordinator.consumer.requests import ConsumerHeartbeat
from kraft.coordinator.group_records import OffsetCommitKey, OffsetCommitValue
from kraft.coordinator.groups.commands import CommitTransactionOffsets, DeleteGroup, GroupCommand
from kraft.coordinator.groups.shard import GroupShard
from kraft.coordinator.groups.timers import OffsetExpiryTimer
from kraft.coordinator.offsets.fetch import fetch_stable
from kraft.coordinator.shard import DecisionContext
from kraft.log.format.control_record import EndTransactionMarker, MarkerType, build_marker
from kraft.log.format.record_batch import read_header
from kraft.metadata.image import MetadataImage
from kraft.model.errors import ErrorCode, Refusal
from tests.simulation.group_transactions_host import SETTINGS, Host, Log, entry
from tests.support import offset_commands
from tests.support.cluster_images import cluster, with_topic
from tests.support.offset_commands import asking

GROUPS: Final = ("billing", "audit")
PARTITIONS: Final = (0, 1)
PRODUCERS: Final = 3
LATE_MAX: Final = 10
UNWRITABLE: Final = Refusal(ErrorCode.NOT_ENOUGH_REPLICAS, "too few replicas")

Place = tuple[str, int]
"""A group and a partition of the topic."""


class Invariant(StrEnum):
    """What must hold after each event."""

    COMMITTED_ALONE_COUNTS = "an offset is visible only if its transaction is committed"
    LATEST_COUNTS = "of the committed records of a partition the last one in the log counts"
    STATE_IS_THE_LOG = "a coordinator's committed state is the replay of its log"
    STABLE_STAYS = "after a fetch of stable offsets no earlier record changes them"
    PENDING_IS_KEPT = "nothing expires while an offset is pending"
    REFUSED_ALONE = "a producer that the log refuses costs nobody else anything"
    NOTHING_HANGS = "after its marker nothing of a transaction is pending"
    ACKNOWLEDGED_IS_COMMITTED = "what is acknowledged to a producer is in the committed log"


class Violation(AssertionError):
    def __init__(self, invariant: Invariant, what: str) -> None:
        super().__init__(f"{invariant}: {what}")
        self.invariant = invariant


class Transaction(Struct, eq=False):
    """A transaction as its coordinator knows it."""

    number: int
    producer_id: int
    epoch: int
    bumps: bool
    """The producer gets another epoch after it (KIP-890, part 2)."""

    is_commit: bool | None = None
    """The decision; None while it is open."""

    sent: int = 0
    acknowledged: set[str] = field(default_factory=set)
    is_written: bool = False
    """The marker is in the log for sure."""

    @property
    def marker(self) -> bytes:
        kind = MarkerType.COMMIT if self.is_commit else MarkerType.ABORT
        body = EndTransactionMarker(type=kind, coordinator_epoch=1)
        return build_marker(body, self.producer_id, self.epoch + self.bumps, 0)


class Model:
    """What the committed log means, by the offsets of records: the definition, without any state of the coordinator."""

    def __init__(self) -> None:
        self.committed: dict[Place, tuple[int, str | None]] = {}
        """Offset of the record, and its metadata; None for a tombstone."""
        self.pending: dict[tuple[int, Place], tuple[int, str]] = {}
        self.logged: set[str] = set()
        """The metadata of every offset."""
        self.fetched: dict[Place, int] = {}
        """The end of the log when a stable offset of the place was last fetched."""

    def add(self, batch: bytes) -> None:
        producer_id, records, is_commit = entry(batch)
        if is_commit is not None:
            for key in [key for key in self.pending if key[0] == producer_id]:
                offset, metadata = self.pending.pop(key)
                if is_commit:
                    self._count(key[1], offset, metadata)
        for offset, record in records:
            if not isinstance(record.key, OffsetCommitKey):
                continue
            place = (record.key.group, record.key.partition)
            if isinstance(record.value, OffsetCommitValue):
                self.logged.add(record.value.metadata)
                if producer_id >= 0:
                    self.pending[producer_id, place] = (offset, record.value.metadata)
                else:
                    self._count(place, offset, record.value.metadata)
            else:
                self._count(place, offset, None)
                for key in [key for key in self.pending if key[1] == place]:
                    del self.pending[key]

    def _count(self, place: Place, offset: int, metadata: str | None) -> None:
        if place in self.committed and self.committed[place][0] > offset:
            return
        if offset < self.fetched.get(place, -1):
            raise Violation(Invariant.STABLE_STAYS, f"{metadata} at {offset} of {place}, after a fetch")
        self.committed[place] = (offset, metadata)


class World:
    def __init__(self, random: Random) -> None:
        self.random = random
        self.now_ms = 1_000_000
        self.shard = GroupShard(SETTINGS)
        self.truth: Log = []
        """The committed part of the log."""
        self.model = Model()
        self.host: Host
        self.transactions: list[Transaction] = []
        """All of them; the last one of each producer may be open."""
        self.network: list[Callable[[], None]] = []
        """Requests under way, with the answers that follow from them."""
        self.late: deque[Callable[[], None]] = deque(maxlen=LATE_MAX)
        """Requests that arrive once more, later."""
        self.elections = self.fetches = self.commits = self.aborts = self.refused = self.expired = self.deleted = 0
        self._ids = 0
        self._image: MetadataImage = with_topic(cluster(1), [1], [1])
        self.elect()

    def context(self) -> DecisionContext:
        self._ids += 1
        return DecisionContext(now_ms=self.now_ms, image=self._image, random_id=str(self._ids))

    # --- coordinators ------------------------------------------------------------------------------------------------

    def elect(self) -> None:
        """Let another broker lead, with all that is committed and a part of the rest."""
        tail = self.host.log[len(self.truth) :] if self.elections else []
        kept = self.random.randint(0, len(tail))
        self.host = Host(self.shard, self.context, [*self.truth, *tail[:kept]])
        self.elections += 1

    def write(self, *, fails: bool = False) -> None:
        self.host.flush()
        if fails:
            self.host.fail_append(UNWRITABLE)
        else:
            self.host.append()

    def replicate(self, batches: int) -> None:
        host = self.host
        for batch in host.log[len(self.truth) : len(self.truth) + batches]:
            self.truth.append(batch)
            self.model.add(batch)
        host.advance_high_watermark(len(self.truth))
        if host.hosted is None and len(self.truth) >= host.load_end:
            host.load()

    def finish_load(self) -> None:
        self.host.finish_load()

    def advance(self, milliseconds: int) -> None:
        until_ms = self.now_ms + milliseconds
        while (at_ms := self.host.next_timer_ms()) is not None and at_ms <= until_ms:
            self.now_ms = max(self.now_ms, at_ms)
            self._end_timer()
        self.now_ms = until_ms

    def _end_timer(self) -> None:
        hosted = self.host.hosted
        assert hosted is not None
        before = hosted.latest
        is_expiry = isinstance(self.host.end_timer(), OffsetExpiryTimer)
        if not is_expiry or hosted.latest is before:
            return
        self.expired += 1
        for group in before.offsets.pending.groups:
            if before.offsets.pending.topics(group) != hosted.latest.offsets.pending.topics(group):
                raise Violation(Invariant.PENDING_IS_KEPT, f"pending offsets of {group} expire")
            if group in before.consumer and group not in hosted.latest.consumer:
                raise Violation(Invariant.PENDING_IS_KEPT, f"{group} expires")

    # --- requests ----------------------------------------------------------------------------------------------------

    def place(self) -> Place:
        return self.random.choice(GROUPS), self.random.choice(PARTITIONS)

    def send(self, command: GroupCommand) -> None:
        """Send a request whose answer nobody waits for."""
        self.network.append(lambda: self.host.decide(command, lambda _: None))

    def commit_alone(self) -> None:
        group, partition = self.place()
        self._ids += 1
        self.send(
            offset_commands.committing(
                group,
                offset_commands.offsets("orders", offset_commands.offset(partition, 1, metadata=f"alone {self._ids}")),
            )
        )

    def delete_group(self) -> None:
        self.deleted += 1
        self.send(DeleteGroup(group_id=self.random.choice(GROUPS)))

    def come_and_go(self) -> None:
        """Let a member join a group and leave it: the group then has records of its own."""
        group = self.random.choice(GROUPS)
        joining = ConsumerHeartbeat(
            group_id=group,
            member_id="m",
            member_epoch=0,
            rebalance_timeout_ms=1_000,
            topics=frozenset({"none"}),
            owned=frozenset(),
        )
        self.send(joining)
        self.send(replace(joining, member_epoch=-1))

    def current(self, producer_id: int) -> Transaction:
        """Return the producer's transaction: a new one if the last one has ended."""
        last = self._last(producer_id)
        if last is not None and not last.is_written:
            return last
        epoch = 0 if last is None else last.epoch + last.bumps
        number = len(self.transactions)
        self.transactions.append(
            Transaction(number=number, producer_id=producer_id, epoch=epoch, bumps=producer_id > 0)
        )
        return self.transactions[-1]

    def _last(self, producer_id: int) -> Transaction | None:
        return next((each for each in reversed(self.transactions) if each.producer_id == producer_id), None)

    def _is_late(self, transaction: Transaction) -> bool:
        """Return whether a request is of a connection that its client has closed.

        Without a bump of the epoch nothing else tells it from one of the next transaction.
        """
        return not transaction.bumps and transaction is not self._last(transaction.producer_id)

    def commit_in_transaction(self) -> None:
        transaction = self.current(self.random.randrange(PRODUCERS))
        if transaction.is_commit is not None:
            return
        group, partition = self.place()
        transaction.sent += 1
        metadata = f"{transaction.number} {transaction.sent}"
        command = offset_commands.in_transaction(
            group,
            "orders",
            offset_commands.offset_in_transaction(partition, 1, metadata),
            transactional_id="id",
            producer_id=transaction.producer_id,
            producer_epoch=transaction.epoch,
        )
        self.network.append(lambda: self._verify(transaction, command))

    def _verify(self, transaction: Transaction, command: CommitTransactionOffsets) -> None:
        """Begin to verify on the broker, which asks the transaction coordinator."""
        host = self.host
        if self._is_late(transaction):
            return
        guard = host.begin_verification(transaction.producer_id, transaction.epoch)
        if guard is None:
            self._decide(transaction, command, host)
        elif transaction.is_commit is None:
            verified = replace(command, guard=guard)
            self.network.append(lambda: self._decide(transaction, verified, host))

    def _decide(self, transaction: Transaction, command: CommitTransactionOffsets, host: Host) -> None:
        if host is not self.host or self._is_late(transaction):
            return

        def answered(response: object) -> None:
            if isinstance(response, Refusal):
                self.refused += response.error_code in (ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_PRODUCER_EPOCH)
            elif isinstance(response, tuple):
                ((commit,),) = (topic.partitions for topic in command.topics)
                assert commit.committed_metadata is not None
                transaction.acknowledged.add(commit.committed_metadata)
                if commit.committed_metadata not in self.model.logged:
                    raise Violation(Invariant.ACKNOWLEDGED_IS_COMMITTED, commit.committed_metadata)

        host.decide(command, answered)

    def end_transaction(self) -> None:
        """Decide the end of a transaction. A producer commits only what was acknowledged."""
        transaction = self.current(self.random.randrange(PRODUCERS))
        if transaction.is_commit is None:
            is_complete = transaction.sent == len(transaction.acknowledged)
            if not is_complete and self.random.random() < 0.7:
                return
            transaction.is_commit = is_complete and self.random.random() < 0.8
            self.commits += transaction.is_commit
            self.aborts += not transaction.is_commit

    def send_marker(self, *, is_late: bool = False) -> None:
        """Send the marker of a transaction that was decided, or repeat one that was written."""
        decided = [each for each in self.transactions if each.is_commit is not None and each.is_written is is_late]
        if decided:
            transaction = self.random.choice(decided)
            self.network.append(lambda: self._deliver_marker(transaction))

    def _deliver_marker(self, transaction: Transaction) -> None:
        def answered(response: object) -> None:
            if response is None:
                transaction.is_written = True

        if not self._is_late(transaction):
            self.host.end_transaction(transaction.marker, 2 if transaction.bumps else 1, answered)

    def fetch_stable(self) -> None:
        hosted = self.host.hosted
        if hosted is None:
            return
        group, partition = self.place()
        asked = [asking("orders", partition)]
        (topic,) = fetch_stable(hosted.committed.offsets, hosted.latest.offsets, group, asked)
        if topic.partitions[0].error_code is ErrorCode.NONE:
            self.fetches += 1
            self.model.fetched[group, partition] = self._end_of_truth()

    def _end_of_truth(self) -> int:
        return read_header(self.truth[-1]).next_offset if self.truth else 0

    # --- what holds --------------------------------------------------------------------------------------------------

    def check(self) -> None:
        host = self.host
        if host.failed_by_producers:
            raise Violation(Invariant.REFUSED_ALONE, "the log refuses a batch that was checked")
        if host.hosted is None:
            return
        held = {
            (group, partition): each.metadata
            for group in host.hosted.committed.offsets.groups
            for _, partition, each in host.hosted.committed.offsets.partitions(group)
        }
        for metadata in held.values():
            self._check_visible(metadata)
        expected = {place: metadata for place, (_, metadata) in self.model.committed.items() if metadata is not None}
        if held != expected:
            raise Violation(Invariant.LATEST_COUNTS, f"{held} is not {expected}")
        pending = {
            (each.producer_id, (group, partition))
            for group in GROUPS
            for _, partition in host.hosted.committed.offsets.pending.partitions(group)
            for each in host.hosted.committed.offsets.pending.of(group, "orders", partition)
        }
        if pending != set(self.model.pending):
            raise Violation(Invariant.STATE_IS_THE_LOG, f"{pending} is not {set(self.model.pending)}")
        for _, metadata in self.model.pending.values():
            if self.transaction_of(metadata).is_written:
                raise Violation(Invariant.NOTHING_HANGS, metadata)

    def _check_visible(self, metadata: str) -> None:
        if metadata.startswith("alone"):
            return
        if not self.transaction_of(metadata).is_commit:
            raise Violation(Invariant.COMMITTED_ALONE_COUNTS, metadata)

    def transaction_of(self, metadata: str) -> Transaction:
        return self.transactions[int(metadata.split(maxsplit=1)[0])]

    def check_end(self) -> None:
        """Check what holds when every marker is written."""
        assert all(each.is_written for each in self.transactions)
        if self.model.pending:
            raise Violation(Invariant.NOTHING_HANGS, f"{self.model.pending}")
