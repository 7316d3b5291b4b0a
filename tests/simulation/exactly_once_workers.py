"""Workers of a joined simulation: members of groups that read, and write what they have read in transactions.

A worker names the member and the generation with which it has read (KIP-447). When it loses its partitions, it may
abort its transaction, or go on like one that has not noticed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Final

from kraft.coordinator.groups.commands import CommitTransactionOffsets
from kraft.coordinator.transactions.transaction import ProducerIdAndEpoch
from kraft.model.ids import Offset
from tests.simulation.exactly_once_coordinators import GroupHost
from tests.simulation.exactly_once_history import Input, Output
from tests.simulation.exactly_once_producers import Producer
from tests.simulation.groups_clients import ClassicClient, Client, ConsumerClient, Partition
from tests.support import offset_commands

TOPIC: Final = "orders"
OUTPUTS: Final = 2
SESSION_MS: Final = 600
"""Shorter than a transaction may take, so that one may outlive the membership of its worker."""

READ_MAX: Final = 2
"""Records of a partition that one transaction reads."""


class Worker(Client):
    """A process from its start to its end."""

    session_ms = SESSION_MS
    rebalance_ms = SESSION_MS
    producer: Producer
    find: Callable[[int], GroupHost]
    """Finds a coordinator of groups of this leader epoch or a later one."""

    begin_number: Callable[[bool], int]
    frozen_until_ms = 0

    def read_or_commit(self) -> None:
        """Begin a transaction with what is to be read next."""
        if self.producer.is_ready:
            self._begin(self.random.sample(sorted(self.positions), self.random.randint(1, len(self.positions))))

    def _begin(self, partitions: list[Partition]) -> None:
        number = self.begin_number(self.producer.bumps)
        outputs: defaultdict[int, list[Output]] = defaultdict(list)
        for partition in partitions:
            for _ in range(self.random.randint(1, READ_MAX)):
                source = Input(self.group_id, partition[1], self.positions[partition])
                outputs[self.random.randrange(OUTPUTS)].append(Output(number, source))
                self.positions[partition] += 1
        member_id, generation = self.member_id, self.generation
        ends = {number: Offset(self.positions[topic, number]) for topic, number in sorted(partitions)}

        def offsets(transaction: int, identity: ProducerIdAndEpoch) -> CommitTransactionOffsets:
            return offset_commands.in_transaction(
                self.group_id,
                TOPIC,
                *(offset_commands.offset_in_transaction(each, end, str(transaction)) for each, end in ends.items()),
                transactional_id=self.producer.transactional_id,
                producer_id=identity.producer_id,
                producer_epoch=identity.epoch,
                member_id=member_id,
                generation_id=generation,
            )

        self.producer.begin(outputs, offsets, self._find_for_producer, number)

    def _find_for_producer(self) -> GroupHost:
        """Find a coordinator for the producer, which the member then knows, too."""
        host = self.find(self._leader_epoch)
        if host.leader_epoch > self._leader_epoch:
            self._host, self._leader_epoch = None, host.leader_epoch
        return host

    def transaction_ended(self, is_commit: bool) -> None:
        """Read again from the committed offsets if the transaction was aborted."""
        if not is_commit:
            self.forget_positions()

    def forget_positions(self) -> None:
        super().forget_positions()
        self._lose_partitions()

    def _lose_partitions(self) -> None:
        if self.random.random() < 0.5:
            self.producer.give_up()

    def end(self) -> None:
        super().end()
        self.producer.end()


class ClassicWorker(Worker, ClassicClient):
    """A worker in a group of the classic protocol."""


class ConsumerWorker(Worker, ConsumerClient):
    """A worker in a group of the consumer protocol."""

    def give_up(self) -> None:
        super().give_up()
        self._lose_partitions()


WORKERS: Final[dict[str, type[ClassicWorker] | type[ConsumerWorker]]] = {
    "classic": ClassicWorker,
    "consumer": ConsumerWorker,
}
"""The workers of each group."""
