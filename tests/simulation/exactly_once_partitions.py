"""A partition of the output topic in a joined simulation: three replicas with real logs, and elections between them.

What is simulated is how batches come from one replica to the others; other simulations are about that. A leader that
was replaced goes on for a while without knowing it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Final

from kraft.client.sans_io.aborted_records import AbortedRecords
from kraft.log.append_work import AppendOrigin
from kraft.log.change import run_now
from kraft.log.format.control_record import EndTransactionMarker, marker_in
from kraft.log.format.record_batch import BatchHeader, decode_batch, split
from kraft.log.partition_log import PartitionLog
from kraft.log.topic_config import TopicConfig
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.fetch import AbortedTransaction
from kraft.model.ids import LeaderEpoch, Offset, TopicPartition
from tests.simulation.exactly_once_history import History, Invariant, Output, Violation, decoded
from tests.support.disks.memory_disk import MemoryDisk

Answer = Callable[[Refusal | None], None]

REPLICAS: Final = 3
NOT_LEADER: Final = Refusal(ErrorCode.NOT_LEADER_OR_FOLLOWER, "another broker leads")
_CONFIG: Final = TopicConfig(segment_bytes=4_000, message_timestamp_after_max_ms=2**62)
_READ_BYTES: Final = 1 << 20


class Replica:
    """A broker's log of the partition."""

    def __init__(self, partition: TopicPartition) -> None:
        self._disk = MemoryDisk()
        self._partition = partition
        self.log = self._open()

    def _open(self) -> PartitionLog:
        return PartitionLog.open(self._disk, f"data/{self._partition}", _CONFIG, self._partition)

    def restart(self) -> None:
        """Start the broker again after a kill: what it has written is there, what it knew only in memory is not."""
        self.log = self._open()

    def follow(self, leader: PartitionLog) -> None:
        """Truncate to where the log of another replica goes on from, and copy all of it."""
        log = self.log
        while log.log_end_offset > log.log_start_offset:
            epoch, end = leader.end_offset_for_epoch(log.latest_epoch)
            if epoch == log.latest_epoch and end >= log.log_end_offset:
                break
            log.truncate_to(min(max(end, Offset(0)), log.log_end_offset))
        if log.log_end_offset < leader.log_start_offset:
            log.truncate_fully_and_start_at(leader.log_start_offset)
        self.copy(leader, leader.log_end_offset)
        run_now(log.advancing_log_start(leader.log_start_offset))

    def copy(self, leader: PartitionLog, until: int) -> None:
        """Copy batches until the log has this offset."""
        while self.log.log_end_offset < min(until, leader.log_end_offset):
            self.log.append_as_follower(leader.read(self.log.log_end_offset, 1, leader.log_end_offset))


class Leader:
    """A replica in one leader epoch."""

    def __init__(self, replica: Replica, epoch: int, high_watermark: int) -> None:
        self.replica = replica
        self.epoch = epoch
        self.high_watermark = high_watermark
        self.is_gone = False
        self._waiting: list[tuple[int, Answer]] = []
        self.log.transactions.high_watermark_advanced(Offset(high_watermark))

    @property
    def log(self) -> PartitionLog:
        return self.replica.log

    def append(self, batch: bytes, origin: AppendOrigin, now_ms: int, answer: Answer) -> None:
        """Append a batch, and answer when it is committed."""
        if self.is_gone:
            answer(NOT_LEADER)
            return
        try:
            result = self.log.append_as_leader(batch, LeaderEpoch(self.epoch), now_ms, run_now, origin=origin)
        except Refusal as refusal:
            answer(refusal)
            return
        self._waiting.append((result.last_offset + 1, answer))
        self._answer()

    def advance(self, high_watermark: int) -> None:
        self.high_watermark = high_watermark
        self.log.transactions.high_watermark_advanced(Offset(high_watermark))
        self._answer()

    def _answer(self) -> None:
        done = [answer for end, answer in self._waiting if end <= self.high_watermark]
        self._waiting = [each for each in self._waiting if each[0] > self.high_watermark]
        for answer in done:
            answer(None)

    def resign(self) -> None:
        self.is_gone = True
        self.log.transactions.end_verifications()
        waiting, self._waiting = self._waiting, []
        for _, answer in waiting:
            answer(NOT_LEADER)


class Partition:
    """Its replicas, and a consumer of committed records."""

    def __init__(self, random: Random, history: History, number: int) -> None:
        self.name = TopicPartition("parcels", number)
        self._random = random
        self._history = history
        self._replicas = [Replica(self.name) for _ in range(REPLICAS)]
        self.leader = Leader(self._replicas[0], 0, 0)
        self.late_leader: Leader | None = None
        """One that was replaced and does not know it."""
        self.consumed = Offset(0)
        """Where the consumer reads next."""

    @property
    def high_watermark(self) -> int:
        return self.leader.high_watermark

    @property
    def last_stable_offset(self) -> Offset:
        return self.leader.log.transactions.last_stable_offset(Offset(self.high_watermark))

    def some_leader(self) -> Leader:
        """Return a leader as one may know it."""
        return self._random.choice([self.leader, self.late_leader or self.leader])

    def leader_on(self, replica: Replica) -> Leader | None:
        """Return the leader that runs on the broker of this replica, if one does."""
        leaders = [self.leader] if self.late_leader is None else [self.leader, self.late_leader]
        return next((each for each in leaders if each.replica is replica), None)

    def _followers(self) -> list[Replica]:
        late = None if self.late_leader is None else self.late_leader.replica
        return [each for each in self._replicas if each is not self.leader.replica and each is not late]

    # --- elections ---------------------------------------------------------------------------------------------------

    def elect(self) -> None:
        """Let a follower lead, and the earlier leader go on as before; or let that one lead in the next epoch."""
        self.resign()
        earlier = self.leader
        if self._random.random() < 0.2:
            earlier.resign()
            self.leader = Leader(earlier.replica, earlier.epoch + 1, earlier.high_watermark)
            return
        chosen = self._random.choice(self._followers())
        self.late_leader = earlier
        self.leader = Leader(chosen, earlier.epoch + 1, earlier.high_watermark)
        for follower in self._followers():
            follower.follow(self.leader.log)
        self._commit()

    def resign(self) -> None:
        """Let the earlier leader learn that another one leads. Perhaps its broker was started again."""
        late, self.late_leader = self.late_leader, None
        if late is not None:
            late.resign()
            if self._random.random() < 0.5:
                late.replica.restart()
            late.replica.follow(self.leader.log)

    # --- replication -------------------------------------------------------------------------------------------------

    def replicate(self, *, all_of_it: bool = False) -> None:
        """Let followers fetch; what all of them have is committed."""
        end = self.leader.log.log_end_offset
        for follower in self._followers():
            until = end if all_of_it else self._random.randint(self.high_watermark, max(end, self.high_watermark))
            follower.copy(self.leader.log, until)
        self._commit()

    def _commit(self) -> None:
        ends = [each.log.log_end_offset for each in self._followers()]
        before, after = self.high_watermark, min(self.leader.log.log_end_offset, *ends)
        if after <= before:
            return
        for header, batch in _batches(self.leader.log, before, after):
            marker, outputs = _content(header, batch)
            numbers = {output.number for output in outputs}
            self._history.committed(self.name, header, marker, numbers)
        for follower in self._followers():
            follower.log.transactions.high_watermark_advanced(Offset(after))
        self.leader.advance(after)

    # --- consumers ---------------------------------------------------------------------------------------------------

    def consume(self) -> None:
        """Let a consumer of committed records read on."""
        log, upper = self.leader.log, self.last_stable_offset
        if upper < self.consumed:
            raise Violation(Invariant.STABLE_MOVES, f"back from {self.consumed} to {upper} in {self.name}")
        aborted = AbortedRecords(
            AbortedTransaction(producer_id=each.producer_id, first_offset=each.first_offset)
            for each in log.transactions.aborted(self.consumed, upper)
        )
        for header, batch in _batches(log, self.consumed, upper):
            if not aborted.has(header, batch) and not header.is_control:
                for output in _content(header, batch)[1]:
                    self._history.consumed(self.name, output)
            self.consumed = header.next_offset

    # --- retention ---------------------------------------------------------------------------------------------------

    def expire_producers(self, now_ms: int, expiration_ms: int) -> None:
        for replica in self._replicas:
            replica.log.expire_producers(now_ms, expiration_ms)

    def delete_consumed(self) -> None:
        """Delete the records that the consumer has read, while no replica may have others in their place.

        A leader that was replaced would keep what it knows of the producers of its own records: from the epochs alone
        it cannot tell that they are not those that were deleted.
        """
        if self.late_leader is not None:
            return
        for replica in (self.leader.replica, *self._followers()):
            run_now(replica.log.advancing_log_start(min(self.consumed, replica.log.log_end_offset)))


def _batches(log: PartitionLog, start: int, end: int) -> Iterator[tuple[BatchHeader, bytes]]:
    while start < end:
        data = log.read(Offset(start), _READ_BYTES, Offset(end))
        if not data:
            return
        for header, batch in split(data):
            start = header.next_offset
            yield header, bytes(batch)


def _content(header: BatchHeader, batch: bytes) -> tuple[EndTransactionMarker | None, list[Output]]:
    marker = marker_in(header, batch)
    if marker is not None:
        return marker, []
    return None, [decoded(each.value) for each in decode_batch(batch) if each.value is not None]
