"""The coordinators in a joined simulation: of groups and of transactions, each one partition with elections.

A coordinator that was replaced goes on for a while without knowing it: it answers, and sends markers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final, Generic, TypeVar

from kraft.coordinator.groups.commands import GroupCommand
from kraft.coordinator.groups.queries import check_fetch
from kraft.coordinator.groups.replicated import Groups
from kraft.coordinator.groups.shard import GroupShard
from kraft.coordinator.offsets.fetch import fetch_stable
from kraft.coordinator.shard import DecisionContext
from kraft.coordinator.shard_effects import RefuseAll
from kraft.coordinator.transactions.commands import TransactionCommand
from kraft.coordinator.transactions.markers import PendingMarkers, pending_markers
from kraft.coordinator.transactions.shard import TransactionShard
from kraft.log.transactions.verification import VerificationGuard
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import TopicPartition
from tests.simulation import group_transactions_host, transactions_host
from tests.simulation.group_transactions_host import LOADING, Answer
from tests.simulation.groups_clients import Request
from tests.simulation.groups_history import FetchOffsets
from tests.simulation.transactions_host import compacted
from tests.support.offset_commands import asking

RESIGNED: Final = Refusal(ErrorCode.NOT_COORDINATOR, "another broker leads")
UNWRITABLE: Final = Refusal(ErrorCode.NOT_ENOUGH_REPLICAS, "too few replicas")


class GroupHost(group_transactions_host.Host):
    """A coordinator of groups whose members commit offsets in transactions."""

    frozen_until_ms = 0

    def __init__(
        self,
        shard: GroupShard,
        context: Callable[[], DecisionContext],
        leader_epoch: int,
        log: Sequence[bytes],
        reply: Callable[[Request, object], None],
    ) -> None:
        super().__init__(shard, context, log)
        self.leader_epoch = leader_epoch
        self.is_gone = False
        self._reply = reply

    def receive(self, request: Request) -> None:
        command = request.command
        if isinstance(command, FetchOffsets):
            self._reply(request, self._fetched(command))
        else:
            self.decide(command, lambda response: self._reply(request, response))

    def decide(self, command: GroupCommand, answer: Answer) -> None:
        if self.is_gone:
            answer(RESIGNED)
        else:
            super().decide(command, answer)

    def _fetched(self, command: FetchOffsets) -> object:
        """Answer as the handler of OffsetFetch does for a client that requires stable offsets."""
        if self.hosted is None:
            return LOADING
        committed, latest = self.hosted.committed, self.hosted.latest
        try:
            check_fetch(committed, command.group_id, command.member_id, command.member_epoch)
        except Refusal as refusal:
            return refusal
        asked = [asking(name, *numbers) for name, numbers in command.partitions.items()]
        return fetch_stable(committed.offsets, latest.offsets, command.group_id, asked)

    def offsets(self, topic: str) -> dict[tuple[str, int], int]:
        """Return the committed offsets, by group and partition."""
        assert self.hosted is not None
        offsets = self.hosted.committed.offsets
        return {
            (group, partition): each.offset
            for group in offsets.groups
            for name, partition, each in offsets.partitions(group)
            if name == topic
        }

    @property
    def state(self) -> Groups | None:
        return None if self.hosted is None else self.hosted.latest

    def verification_refused(self, producer_id: int, guard: VerificationGuard, refusal: Refusal) -> None:
        if not refusal.error_code.retriable:
            self.producers.verifications.refuse(producer_id, guard)

    def committed(self, batches: int) -> None:
        self.advance_high_watermark(batches)
        if self.hosted is None and batches >= self.load_end:
            self.load()

    def resign(self) -> None:
        self.is_gone = True
        self._timers.clear()
        self._carry_out([RefuseAll(RESIGNED)])

    def end_timers(self, now_ms: int) -> None:
        while (at_ms := self.next_timer_ms()) is not None and at_ms <= now_ms:
            self.end_timer()

    def write(self, *, fails: bool = False) -> None:
        self.flush()
        if fails:
            self.fail_append(UNWRITABLE)
        else:
            self.append()


class TransactionHost(transactions_host.Host):
    """A coordinator of transactions."""

    def __init__(
        self,
        shard: TransactionShard,
        context: Callable[[], DecisionContext],
        leader_epoch: int,
        log: Sequence[transactions_host.Batch],
    ) -> None:
        self.is_gone = False
        self.under_way: set[tuple[str, int, TopicPartition]] = set()
        """Markers of old clients that are not answered: by transactional id, time of the decision, and partition."""
        super().__init__(shard, context, leader_epoch, log)

    def receive(self, command: TransactionCommand, answer: Answer) -> None:
        if self.is_gone:
            answer(RESIGNED)
        else:
            super().receive(command, answer)

    def committed(self, batches: int) -> None:
        self.commit(batches)

    def resign(self) -> None:
        self.is_gone = True
        self._timers.clear()
        self._carry_out([RefuseAll(RESIGNED)])

    def write(self, *, fails: bool = False) -> None:
        self.flush()
        if fails:
            self.fail_append()
        else:
            self.append()

    def finish_load(self) -> None:
        self.load()

    def pending(self) -> list[PendingMarkers]:
        hosted = self.hosted
        if hosted.volatile is None or self.is_gone:
            return []
        # Sets and maps of texts have another order in each process.
        return sorted(
            pending_markers(hosted.committed, hosted.latest, hosted.volatile), key=lambda each: each.transactional_id
        )


Host = TypeVar("Host", GroupHost, TransactionHost)


class Succession(ABC, Generic[Host]):
    """A partition with the brokers that lead it, one after the other."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.truth: list[Any] = []
        """The committed part of the log."""
        self.leader_epoch = 0
        self.leader: Host = self.begin([])
        self.late: Host | None = None
        """The leader before, while it does not know that it was replaced."""

    @abstractmethod
    def begin(self, log: list[Any]) -> Host:
        """Let a broker lead, with this log."""

    def committed(self, batch: Any) -> None:
        """Note that a batch is committed."""

    def some_host(self) -> Host:
        """Return a coordinator as clients may know it."""
        return self.random.choice([self.leader, self.late or self.leader])

    def find(self, leader_epoch: int) -> Host:
        """Return a coordinator of this leader epoch or a later one."""
        return self.random.choice([host for host in self.hosts if host.leader_epoch >= leader_epoch])

    @property
    def hosts(self) -> list[Host]:
        return [self.leader] if self.late is None else [self.leader, self.late]

    def elect(self, kept: int | None = None) -> None:
        """Let another broker lead, with all that is committed and a part of the rest: `kept` batches of it."""
        self.resign()
        self.late = self.leader
        tail: list[Any] = self.leader.log[len(self.truth) :]
        self.leader_epoch += 1
        if kept is None:
            kept = self.random.randint(0, len(tail))
        self.leader = self.begin([*self.truth, *tail[:kept]])

    def resign(self) -> None:
        late, self.late = self.late, None
        if late is not None:
            late.resign()

    def replicate(self, batches: int) -> None:
        for batch in self.leader.log[len(self.truth) : len(self.truth) + batches]:
            self.truth.append(batch)
            self.committed(batch)
        self.leader.committed(len(self.truth))

    def replicate_all(self) -> None:
        self.replicate(len(self.leader.log))


class GroupCoordinators(Succession[GroupHost]):
    def __init__(
        self,
        random: Random,
        shard: GroupShard,
        context: Callable[[], DecisionContext],
        reply: Callable[[Request, object], None],
        committed: Callable[[bytes], None],
    ) -> None:
        self._new: Callable[[list[bytes]], GroupHost] = lambda log: GroupHost(
            shard, context, self.leader_epoch, log, reply
        )
        self._committed = committed
        super().__init__(random)

    def begin(self, log: list[bytes]) -> GroupHost:
        return self._new(log)

    def committed(self, batch: bytes) -> None:
        self._committed(batch)


class TransactionCoordinators(Succession[TransactionHost]):
    def __init__(self, random: Random, shard: TransactionShard, context: Callable[[], DecisionContext]) -> None:
        self._new: Callable[[list[transactions_host.Batch]], TransactionHost] = lambda log: TransactionHost(
            shard, context, self.leader_epoch, log
        )
        super().__init__(random)

    def begin(self, log: list[transactions_host.Batch]) -> TransactionHost:
        """Load what the log says, perhaps after its compaction. What is left of the tail is committed then."""
        self.truth = compacted(log) if log and self.random.random() < 0.3 else log
        return self._new(self.truth)
