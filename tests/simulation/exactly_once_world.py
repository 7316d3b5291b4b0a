"""Transactions, groups and elections together: workers read, write and commit offsets in transactions, under faults.

There are a coordinator of transactions, one of groups, and two partitions that are written to, each with elections
whose losers go on for a while. Requests, answers, verifications and markers are late, lost or repeated; appends fail;
workers are killed, paused, fenced and replaced; transactions time out; partitions forget producers and delete records.

Only what old clients cannot have is left out: a request of theirs that arrives after a later one, records excepted, a
marker that arrives twice from one coordinator, and the verification of records by a coordinator that was replaced. Each
could confuse their next transaction with the last one, because both have one epoch. No client returns from a
coordinator to an earlier one, and the member and the producer of a worker know the same coordinator of groups: one that
was replaced does not see what its successor commits.
"""

from __future__ import annotations

from functools import partial
from random import Random
from typing import Final
from uuid import UUID

from msgspec.structs import replace

from kraft.coordinator.classic.settings import ClassicSettings
from kraft.coordinator.consumer.settings import GroupSettings
from kraft.coordinator.group_records import OffsetCommitKey, OffsetCommitValue
from kraft.coordinator.groups.settings import GroupShardSettings
from kraft.coordinator.groups.shard import GroupShard
from kraft.coordinator.shard import DecisionContext
from kraft.coordinator.transactions.settings import TransactionSettings
from kraft.coordinator.transactions.shard import TransactionShard
from kraft.coordinator.transactions.transaction import EPOCH_BUMP
from kraft.log.format.control_record import marker_in
from kraft.log.format.record_batch import read_header
from kraft.metadata.features import TRANSACTION_VERSION
from kraft.metadata.image import EMPTY_IMAGE, MetadataImage
from kraft.metadata.topic_names import OFFSETS_TOPIC
from kraft.model.errors import ErrorCode
from kraft.model.ids import TopicId
from tests.simulation.exactly_once_brokers import OFFSETS, Brokers
from tests.simulation.exactly_once_coordinators import (
    GroupCoordinators,
    GroupHost,
    TransactionCoordinators,
    TransactionHost,
)
from tests.simulation.exactly_once_history import History, Invariant, Violation
from tests.simulation.exactly_once_network import AGE_MAX_MS, Network
from tests.simulation.exactly_once_partitions import Partition
from tests.simulation.exactly_once_producers import Producer
from tests.simulation.exactly_once_workers import OUTPUTS, SESSION_MS, TOPIC, WORKERS, Worker
from tests.simulation.group_transactions_host import entry
from tests.simulation.groups_clients import Request, Surroundings
from tests.simulation.groups_world import TOPIC_IDS, TOPIC_NAMES
from tests.support.cluster_images import with_topic

INPUTS: Final = 3
PRODUCER_EXPIRATION_MS: Final = 2 * AGE_MAX_MS
WORKERS_MAX: Final = 5
TRANSACTIONAL_IDS: Final = ("a", "b", "c", "d")
OLD_IDS: Final = ("b", "d")
"""Ids of clients that know no bump of the epoch."""

_STALE: Final = {ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID}

SETTINGS: Final = GroupShardSettings(
    classic=ClassicSettings(
        session_timeout_min_ms=SESSION_MS, initial_rebalance_delay_ms=50, new_member_join_timeout_ms=2 * SESSION_MS
    ),
    consumer=GroupSettings(
        session_timeout_ms=SESSION_MS, heartbeat_interval_ms=SESSION_MS // 3, assignment_interval_ms=100
    ),
)


class World:
    def __init__(self, random: Random, level: int | None = None) -> None:
        """`level` is that of `transaction.version`."""
        self.random = random
        self.network = Network(random)
        self.network.now_ms = 1_000_000
        self.history = History()
        self.level = random.choice([0, EPOCH_BUMP, EPOCH_BUMP]) if level is None else level
        self.image = _image(self.level)
        self.workers: list[Worker] = []
        self.elections = self.fenced = self.stale_commits = 0
        self._ids = 0
        self.transactions = TransactionCoordinators(random, TransactionShard(TransactionSettings()), self._context)
        self.groups = GroupCoordinators(random, GroupShard(SETTINGS), self._context, self._reply, self._committed)
        self.partitions = [Partition(random, self.history, number) for number in range(OUTPUTS)]
        self.brokers = Brokers(self.network, self.history, self.transactions, self.groups, self.partitions)
        self._of_clients = Surroundings(
            random=random,
            send=self._send,
            give_up=lambda request: self.network.close(request=request),
            find_coordinator=self.groups.find,
            partitions_of=lambda topics: [(topic, number) for topic in sorted(topics) for number in range(INPUTS)],
            next_commit=self._next_id,
            joined=lambda member_id, client: None,
            topic_name=TOPIC_NAMES.__getitem__,
            # What members know of their assignment is checked where groups are simulated alone.
            is_of_member=lambda heartbeat: True,
            heard=lambda heartbeat, assigned: None,
        )

    def _context(self) -> DecisionContext:
        return DecisionContext(now_ms=self.network.now_ms, image=self.image, random_id=f"{self._next_id():06}")

    def _next_id(self) -> int:
        self._ids += 1
        return self._ids

    # --- time --------------------------------------------------------------------------------------------------------

    def advance(self, milliseconds: int) -> None:
        self.network.now_ms += milliseconds
        for host in self._hosts():
            host.end_timers(self.network.now_ms)

    def _hosts(self) -> list[TransactionHost | GroupHost]:
        return [*self.transactions.hosts, *self.groups.hosts]

    # --- brokers -----------------------------------------------------------------------------------------------------

    def write(self, *, fails: bool = False) -> None:
        """Let a coordinator append what it has decided."""
        host = self.random.choice(self._hosts())
        host.finish_load()
        host.write(fails=fails)
        self._check_hosts()

    def replicate(self) -> None:
        coordinators: list[TransactionCoordinators | GroupCoordinators] = [self.transactions, self.groups]
        self.random.choice(coordinators).replicate(self.random.randint(1, 3))
        self.random.choice(self.partitions).replicate()

    def work(self) -> None:
        """Let all brokers do what they do at once if nothing is in their way."""
        for coordinators in (self.transactions, self.groups):
            coordinators.leader.finish_load()
            coordinators.leader.write()
            coordinators.replicate_all()
        for partition in self.partitions:
            partition.replicate(all_of_it=True)
        self._check_hosts()

    def _check_hosts(self) -> None:
        if any(host.failed_by_producers for host in self.groups.hosts):
            raise Violation(Invariant.REFUSED_ALONE, "the log refuses a batch that was checked")

    def elect(self) -> None:
        self.elections += 1
        self.random.choice(self._led()).elect()

    def resign(self) -> None:
        self.random.choice(self._led()).resign()

    def _led(self) -> list[TransactionCoordinators | GroupCoordinators | Partition]:
        return [self.transactions, self.groups, *self.partitions]

    def resign_all(self) -> None:
        for each in self._led():
            each.resign()

    def send_markers(self) -> None:
        self.brokers.send_markers(lambda: self.random.random() < 0.3)

    def consume(self) -> None:
        self.random.choice(self.partitions).consume()

    def delete_consumed(self) -> None:
        self.random.choice(self.partitions).delete_consumed()

    def expire_producers(self) -> None:
        for partition in self.partitions:
            partition.expire_producers(self.network.now_ms, PRODUCER_EXPIRATION_MS)

    # --- the group's partition ---------------------------------------------------------------------------------------

    def _committed(self, batch: bytes) -> None:
        header = read_header(batch)
        numbers = {
            int(record.value.metadata)
            for _, record in entry(batch).records
            if isinstance(record.key, OffsetCommitKey) and isinstance(record.value, OffsetCommitValue)
        }
        self.history.committed(OFFSETS, header, marker_in(header, batch), numbers)

    def _send(self, request: Request) -> None:
        self.network.send(
            partial(request.host.receive, request), request=request, may_be_lost=self.random.random() < 0.2
        )

    def _reply(self, request: Request, response: object) -> None:
        def arrive() -> None:
            if request.sender is not None and request.sender.is_alive:
                request.sender.receive(request, response)

        self.network.send(arrive, may_repeat=False)

    # --- workers -----------------------------------------------------------------------------------------------------

    def start(self, group_id: str, transactional_id: str) -> Worker:
        worker = WORKERS[group_id](self._of_clients, group_id, None, frozenset({TOPIC}))
        version = 0 if transactional_id in OLD_IDS else self.level
        name = f"{transactional_id} {self._next_id()}"
        worker.producer = Producer(self.random, self.brokers, name, transactional_id, version, worker.transaction_ended)
        worker.find = self.groups.find
        worker.begin_number = lambda bumps: self.history.begin(bumps=bumps)
        self.workers.append(worker)
        return worker

    def step(self) -> None:
        awake = [each for each in self.workers if each.frozen_until_ms <= self.network.now_ms]
        if awake:
            self.step_of(self.random.choice(awake))

    def step_of(self, worker: Worker) -> None:
        worker.step()
        worker.producer.step()
        if worker.producer.is_dead or worker.is_fenced:
            self.fenced += 1
            self.end(worker)

    def end(self, worker: Worker) -> None:
        self.stale_commits += sum(code in _STALE for code in worker.producer.refusals)
        self.workers.remove(worker)
        worker.end()

    # --- the end -----------------------------------------------------------------------------------------------------

    def check_end(self) -> None:
        for partition in self.partitions:
            partition.consume()
        self.history.check_end(self.brokers.offsets)

    def unstable(self) -> str:
        """Return what is held back by a transaction; empty if nothing is."""
        for partition in self.partitions:
            if partition.last_stable_offset < partition.high_watermark:
                return str(partition.name)
        state = self.groups.leader.state
        pending = None if state is None else list(state.offsets.pending.groups)
        return f"offsets of {pending}" if pending else ""


def _image(level: int) -> MetadataImage:
    image = replace(EMPTY_IMAGE, features={TRANSACTION_VERSION: level})
    image = with_topic(image, *[(1,)] * INPUTS, topic=TOPIC, topic_id=TOPIC_IDS[TOPIC])
    image = with_topic(image, *[(1,)] * OUTPUTS, topic="parcels", topic_id=TOPIC_IDS["parcels"])
    return with_topic(image, (1,), topic=OFFSETS_TOPIC, topic_id=TopicId(UUID(int=3)))
