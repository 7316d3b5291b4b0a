"""The coordinators of transactions on this broker: one shard for each partition of `__transaction_state` it leads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple, TypeVar

from msgspec.structs import replace

from kraft.coordinator.transactions.commands import (
    CommitTransactions,
    EndTransaction,
    InitProducerId,
    ProducerIdNeeded,
    TransactionCommand,
)
from kraft.coordinator.transactions.refusals import id_error
from kraft.coordinator.transactions.replicated import Transactions
from kraft.metadata.image import CurrentImage
from kraft.metadata.topic_names import TRANSACTIONS_TOPIC
from kraft.model.callbacks import AsyncCall
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import ProducerId
from kraft.model.producer_transactions import CoordinatedPartition
from kraft.server.coordinator.marker_sender import MarkerSender
from kraft.server.coordinator.shard_host import ShardHostServices
from kraft.server.coordinator.topic_shards import TopicShards
from kraft.server.coordinator.transaction_kind import TransactionKind
from kraft.server.replica.partition import Partition

T = TypeVar("T")

RESPONSE_S_MAX: Final = 60.0
"""Deadline of a request: above the commit timeout, which answers it first."""


class CommittedShard(NamedTuple):
    """The committed state of one shard, and the partition and leader epoch in which it is that."""

    partition: CoordinatedPartition
    transactions: Transactions


class TransactionCoordinators:
    """Finds the shard of each transactional id, and has the markers of decided transactions written."""

    def __init__(
        self,
        kind: TransactionKind,
        services: ShardHostServices,
        image: CurrentImage,
        markers: MarkerSender,
        new_producer_id: AsyncCall[ProducerId],
    ) -> None:
        """`new_producer_id` returns one that nobody else has; it raises Refusal."""
        self._markers = markers
        self._new_producer_id = new_producer_id
        events = replace(services, loaded=self._loaded, committed=self._committed)
        self._hosts = TopicShards(TRANSACTIONS_TOPIC, kind, events, image)

    # --- requests --------------------------------------------------------------------------------------------

    async def decide(self, command: TransactionCommand) -> Any:
        """Return the response to a command.

        Raises Refusal: INVALID_REQUEST for the transactional id, NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS,
        COORDINATOR_NOT_AVAILABLE, and what the shard refuses.
        """
        _check(command.transactional_id)
        host = self._hosts.host_of(command.transactional_id)
        response = await host.decide_for_client(command, RESPONSE_S_MAX)
        while isinstance(response, ProducerIdNeeded):
            assert isinstance(command, InitProducerId | EndTransaction | CommitTransactions), (
                f"{command} needs no producer id"
            )
            command = replace(command, new_producer_id=await self._new_producer_id())
            response = await host.decide_for_client(command, RESPONSE_S_MAX)
        return response

    async def after_last(self, transactional_id: str, ask: AsyncCall[T]) -> T:
        """Return what `ask` returns. If it is refused because the id's last transaction is being completed, wait for
        that for a short time, and ask once more.

        Not more often: a request of a client that has sent it again, and gone on, must not linger. Raises Refusal.
        """
        try:
            return await ask()
        except Refusal as refusal:
            if refusal.error_code is not ErrorCode.CONCURRENT_TRANSACTIONS:
                raise
            if not await self._markers.completions.wait(self._hosts.host_of(transactional_id), transactional_id):
                raise
        return await ask()

    def committed(self, transactional_id: str) -> Transactions:
        """Return the committed state of the shard that has the id. Raises Refusal as `decide`, at once."""
        _check(transactional_id)
        return self._hosts.host_of(transactional_id).running().committed

    def all_committed(self) -> Iterator[CommittedShard]:
        """Yield the committed states of all shards here. A partition that is no longer led is left out.

        Raises Refusal COORDINATOR_LOAD_IN_PROGRESS while one is loading. Source: listTransactions of Kafka.
        """
        for host in self._hosts:
            try:
                committed = host.running().committed
            except Refusal as refusal:
                if refusal.error_code is not ErrorCode.NOT_COORDINATOR:
                    raise
            else:
                led = host.partition
                number = led.topic_partition.partition
                yield CommittedShard(CoordinatedPartition(partition=number, leader_epoch=led.leader_epoch), committed)

    # --- leadership ------------------------------------------------------------------------------------------

    def role_changed(self, partition: Partition) -> None:
        self._hosts.role_changed(partition)

    def _loaded(self, partition: Partition) -> None:
        if (host := self._hosts.running(partition)) is not None:
            self._markers.loaded(host)

    def _committed(self, partition: Partition) -> None:
        if (host := self._hosts.running(partition)) is not None:
            self._markers.committed(host)

    # --- end -------------------------------------------------------------------------------------------------

    async def drain(self) -> None:
        """Refuse new requests, wait briefly for the commit of what was decided, and refuse those that wait longer."""
        await self._hosts.drain()
        await self._markers.close()


def _check(transactional_id: str) -> None:
    # Before the partition is computed, which takes time for every character.
    if (refusal := id_error(transactional_id)) is not None:
        raise refusal
