"""Drivers that write batches with many tasks each, and commit them together, under faults by a seed.

The coordinator is real, on a log that can fail. Two drivers work on one checkpoint at a time, as after a restart whose
predecessor is still alive. Tasks are lost and tried again, while the lost ones go on. Messages arrive late, twice or
never. A batch must be committed once, all of it or nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Final

from msgspec.structs import replace

from kraft.coordinator.transactions.commands import (
    AddPartitions,
    CommitTransactions,
    EndTransaction,
    InitProducerId,
    MarkersWritten,
    ProducerIdNeeded,
    TransactionCommand,
    TransactionToCommit,
)
from kraft.coordinator.transactions.markers import PendingMarkers, pending_markers
from kraft.coordinator.transactions.settings import TransactionSettings
from kraft.coordinator.transactions.shard import TransactionShard
from kraft.coordinator.transactions.transaction import EPOCH_BUMP, ProducerIdAndEpoch, TransactionState
from kraft.metadata.features import TRANSACTION_VERSION
from kraft.metadata.image import EMPTY_IMAGE
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import ProducerId, TopicPartition
from kraft.model.transactions import CommitTransactionsResponse
from tests.simulation.sink_history import History, Invariant, Violation
from tests.simulation.transactions_coordinator import FaultyCoordinator
from tests.simulation.transactions_host import Host

TIMEOUT_MS: Final = 2_000
COMMITTER: Final = "query"
PARTITIONS: Final = tuple(TopicPartition("output", number) for number in range(3))
_RETRY: Final = {ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_NOT_AVAILABLE}


@dataclass(slots=True, eq=False)
class Task:
    """One attempt of a task. It goes on also after its driver has given it up."""

    name: str
    transactional_id: str
    """Its own, or that of a task of an earlier batch, which may still go on."""
    partitions: list[TopicPartition]
    identity: ProducerIdAndEpoch | None = None
    written: int = 0
    request: TransactionCommand | None = None
    attempt: int = 0
    has_failed: bool = False

    @property
    def is_done(self) -> bool:
        return not self.has_failed and self.identity is not None and self.written == len(self.partitions)


@dataclass(slots=True, eq=False)
class Driver:
    """Writes one batch after the other, from what the checkpoint says when it starts."""

    batch: int
    tasks: list[Task] = field(default_factory=list)
    used: list[str] = field(default_factory=list)
    """Transactional ids of the tasks of this batch, also of those that were lost."""
    free: list[str] = field(default_factory=list)
    """Those of earlier batches."""
    commit: CommitTransactions | None = None
    """The request to commit the batch, until its response."""


@dataclass(slots=True)
class Entry:
    """What a partition knows of one producer id."""

    epoch: int = -1
    open: set[str] = field(default_factory=set)
    """Names of the tasks that have written."""


class World(FaultyCoordinator):
    def __init__(self, seed: int) -> None:
        super().__init__(Random(seed))
        self.image = replace(EMPTY_IMAGE, features={TRANSACTION_VERSION: EPOCH_BUMP})
        self.history = History()
        self.shard = TransactionShard(TransactionSettings(id_expiration_ms=10_000_000, expiry_interval_ms=500))
        self.counter = 100
        self.network: list[Callable[[], None]] = []
        self.late: list[Callable[[], None]] = []
        self.entries: dict[tuple[TopicPartition, int], Entry] = {}
        self.lost_tasks: list[Task] = []
        self.checkpoint = -1
        """The last batch that is committed, as Spark's checkpoint says."""
        self.reuses_ids = self.chance.random() < 0.5
        """True if later batches use the ids of earlier ones again; else they are temporary."""
        self.drivers = [Driver(0) for _ in range(self.chance.choice([1, 1, 2]))]
        self.host = Host(self.shard, self.context, 0, [])

    def _next(self) -> int:
        self.counter += 1
        return self.counter

    # --- runs --------------------------------------------------------------------------------------------------------

    def run(self, steps: int) -> None:
        events: list[tuple[Callable[[], None], int]] = [
            (self._driver_acts, 100),
            (self._task_acts, 300),
            (self.deliver, 600),
            (self._deliver_again, 15),
            (self.works, 250),
            (self.append, 100),
            (self.commit, 100),
            (self.send_markers, 100),
            (self.time_passes, 10),
            (self.crash, 4),
            (self._driver_crashes, 2),
            (self._task_is_lost, 3),
        ]
        acts, weights = zip(*events, strict=True)
        for step, act in enumerate(self.chance.choices(acts, weights, k=steps)):
            act()
            if step % 20 == 0:
                self.check_state()
        self._heal()

    def _heal(self) -> None:
        """Without faults and new tasks, everything ends in time."""
        self.network += self.late
        self.end_faults(TIMEOUT_MS // 10, 80)
        by_id = self.host.hosted.committed.by_id
        hanging = {
            each: transaction.state
            for each, transaction in by_id.items()
            # A temporary id that was asked for and never used has no timer: it expires.
            if not (transaction.state.is_closed if self.reuses_ids else transaction.state is TransactionState.EMPTY)
        }
        open_records = {key: entry for key, entry in self.entries.items() if entry.open}
        if hanging or open_records:
            raise Violation(Invariant.NOTHING_HANGS, f"{hanging} {open_records}")
        self.history.check_end()

    def check_state(self) -> None:
        if not self.has_state_of_log():
            raise Violation(Invariant.STATE_IS_THE_LOG, "")

    # --- markers -----------------------------------------------------------------------------------------------------

    def send_markers(self) -> None:
        hosted = self.host.hosted
        if hosted.volatile is None:
            return
        pending = pending_markers(hosted.committed, hosted.latest, hosted.volatile)
        # Sets and maps of texts have another order in each process.
        for markers in sorted(pending, key=lambda each: each.transactional_id):
            for partition in sorted(markers.partitions):
                if self.chance.random() < 0.7:
                    self.network.append(partial(self._mark, self.host, markers, partition))

    # --- partitions --------------------------------------------------------------------------------------------------

    def _mark(self, host: Host, markers: PendingMarkers, partition: TopicPartition) -> None:
        """Write a marker, unless a later producer has been here; then report it."""
        entry = self.entries.setdefault((partition, markers.producer.producer_id), Entry())
        if markers.producer.epoch < entry.epoch or (markers.producer.epoch == entry.epoch and entry.open):
            return
        ended, entry.open = entry.open, set()
        entry.epoch = markers.producer.epoch
        for name in ended:
            self.history.ended(name, partition, commit=markers.commit)
        self.network.append(partial(self._report, host, markers.written(frozenset({partition}))))

    def _report(self, host: Host, report: MarkersWritten) -> None:
        if host is self.host:
            host.receive(report, lambda response: None)

    def _write(self, task: Task, partition: TopicPartition) -> bool:
        """Write a record, after the coordinator has verified that the partition is in the transaction."""
        assert task.identity is not None
        for transactions in (self.host.hosted.latest, self.host.hosted.committed):
            known = transactions.by_id.get(task.transactional_id)
            is_open = known is not None and known.state is TransactionState.ONGOING
            if known is None or not is_open or known.producer != task.identity or partition not in known.partitions:
                return False
        entry = self.entries.setdefault((partition, task.identity.producer_id), Entry())
        if task.identity.epoch < entry.epoch:
            return False
        entry.epoch = task.identity.epoch
        entry.open.add(task.name)
        self.history.written[task.name].add(partition)
        return True

    # --- tasks -------------------------------------------------------------------------------------------------------

    def _new_task(self, driver: Driver) -> Task:
        places = self.chance.sample(PARTITIONS, self.chance.randint(1, len(PARTITIONS)))
        name = f"{COMMITTER}-{self._next()}"
        transactional_id = driver.free.pop() if self.reuses_ids and driver.free else name
        driver.used.append(transactional_id)
        return Task(name, transactional_id, places)

    def _task_acts(self) -> None:
        tasks = [each for driver in self.drivers for each in driver.tasks] + self.lost_tasks
        tasks = [each for each in tasks if not each.has_failed and not each.is_done]
        if not tasks:
            return
        task = self.chance.choice(tasks)
        if task.request is not None:
            if self.chance.random() < 0.1:
                self._send(task, task.request)
        elif task.identity is None:
            command = InitProducerId(
                transactional_id=task.transactional_id, timeout_ms=TIMEOUT_MS, is_temporary=not self.reuses_ids
            )
            self._send(task, command)
        else:
            self._send(
                task,
                AddPartitions(
                    transactional_id=task.transactional_id,
                    producer=task.identity,
                    partitions=frozenset({task.partitions[task.written]}),
                    client_version=EPOCH_BUMP,
                ),
            )

    def _send(self, task: Task, command: TransactionCommand) -> None:
        task.request, task.attempt = command, self._next()
        self.network.append(partial(self._arrive, command, partial(self._take, task, task.attempt)))

    def _arrive(self, command: TransactionCommand, take: Callable[[object], None]) -> None:
        self.host.receive(command, lambda response: self.network.append(partial(take, response)))

    def _take(self, task: Task, attempt: int, response: object) -> None:
        if attempt != task.attempt or task.request is None:
            return
        command, task.request = task.request, None
        if isinstance(response, ProducerIdNeeded):
            assert isinstance(command, InitProducerId)
            self._send(task, replace(command, new_producer_id=ProducerId(self._next())))
        elif isinstance(response, Refusal):
            if response.error_code in _RETRY:
                task.request = command
            else:
                task.has_failed = True
        elif isinstance(response, ProducerIdAndEpoch):
            task.identity = response
        elif self._write(task, task.partitions[task.written]):
            task.written += 1
        else:
            task.has_failed = True

    def _task_is_lost(self) -> None:
        """A driver takes a task for lost, which goes on."""
        driver = self.chance.choice(self.drivers)
        if driver.tasks and driver.commit is None:
            self._replace(driver, self.chance.randrange(len(driver.tasks)))

    def _replace(self, driver: Driver, place: int) -> None:
        self.lost_tasks.append(driver.tasks[place])
        driver.tasks[place] = self._new_task(driver)

    # --- drivers -----------------------------------------------------------------------------------------------------

    def _driver_acts(self) -> None:
        driver = self.chance.choice(self.drivers)
        if driver.commit is not None:
            if self.chance.random() < 0.1:
                self._send_commit(driver, driver.commit)
        elif not driver.tasks:
            driver.tasks = [self._new_task(driver) for _ in range(self.chance.randint(1, 3))]
        elif all(task.is_done for task in driver.tasks):
            self._ask_commit(driver)
        else:
            for place, task in enumerate(driver.tasks):
                if task.has_failed:
                    self._replace(driver, place)

    def _ask_commit(self, driver: Driver) -> None:
        named = tuple(
            TransactionToCommit(transactional_id=task.transactional_id, producer=task.identity)
            for task in driver.tasks
            if task.identity is not None
        )
        self.history.asked[driver.batch].add(frozenset(task.name for task in driver.tasks))
        self._send_commit(
            driver, CommitTransactions(transactional_id=COMMITTER, sequence=driver.batch, transactions=named)
        )

    def _send_commit(self, driver: Driver, command: CommitTransactions) -> None:
        driver.commit = command
        self.network.append(partial(self._arrive, command, partial(self._take_commit, driver, command)))

    def _take_commit(self, driver: Driver, command: CommitTransactions, response: object) -> None:
        if driver not in self.drivers or driver.commit is None or driver.commit.transactions != command.transactions:
            return
        if isinstance(response, ProducerIdNeeded):
            self._send_commit(driver, replace(command, new_producer_id=ProducerId(self._next())))
        elif isinstance(response, CommitTransactionsResponse):
            if not response.are_committed:
                self._abort(driver)
            self.history.passed.add(driver.batch)
            self.checkpoint = max(self.checkpoint, driver.batch)
            driver.batch, driver.tasks, driver.commit = driver.batch + 1, [], None
            driver.used, driver.free = [], driver.free + driver.used
        else:
            assert isinstance(response, Refusal)
            if response.error_code not in _RETRY:
                # Spark ends the query, and it is started again.
                self._abort(driver)
                self._restart(driver)

    def _abort(self, driver: Driver) -> None:
        for task in driver.tasks:
            if task.identity is not None:
                command = EndTransaction(
                    transactional_id=task.transactional_id,
                    producer=task.identity,
                    commit=False,
                    client_version=EPOCH_BUMP,
                )
                self.network.append(partial(self._arrive, command, lambda response: None))

    def _driver_crashes(self) -> None:
        self._restart(self.chance.choice(self.drivers))

    def _restart(self, driver: Driver) -> None:
        """Begin with the batch after the checkpoint's. The tasks are not told."""
        self.lost_tasks += driver.tasks
        self.drivers.remove(driver)
        self.drivers.append(Driver(self.checkpoint + 1, free=driver.free + driver.used))

    # --- the network -------------------------------------------------------------------------------------------------

    def deliver(self) -> None:
        """Deliver any message; under faults, it may be lost, or come again much later."""
        if not self.network:
            return
        is_late = self.chance.random() < 0.3
        message = self.network.pop(self.chance.randrange(len(self.network)) if is_late else 0)
        lot = self.chance.random()
        if self.faults and lot < 0.05:
            self.late.append(message)
        if not (self.faults and lot > 0.97):
            message()

    def _deliver_again(self) -> None:
        if self.late:
            self.late.pop(self.chance.randrange(len(self.late)))()
