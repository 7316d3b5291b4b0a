"""The coordinator of transactions on broker 1, on a real log and virtual time, and the leaders that write markers."""

from __future__ import annotations

import asyncio
from itertools import count
from pathlib import Path
from typing import Any, Self
from uuid import UUID

from msgspec.structs import replace

from kraft.coordinator.shard import DecisionContext
from kraft.coordinator.transactions.commands import AddPartitions, EndTransaction, InitProducerId, TransactionCommand
from kraft.coordinator.transactions.record_codec import encode
from kraft.coordinator.transactions.replicated import record_of
from kraft.coordinator.transactions.settings import TransactionSettings
from kraft.coordinator.transactions.transaction import (
    EPOCH_BUMP,
    EPOCH_MAX,
    ProducerIdAndEpoch,
    Transaction,
    TransactionState,
)
from kraft.log.format.record_batch import build_batch
from kraft.log.format.record_codec import Record
from kraft.metadata.image import MetadataImage
from kraft.metadata.records import PartitionChanged, TopicDeleted
from kraft.metadata.topic_names import TRANSACTIONS_TOPIC
from kraft.model.errors import Refusal
from kraft.model.ids import BrokerId, LeaderEpoch, PartitionEpoch, ProducerEpoch, ProducerId, TopicId, TopicPartition
from kraft.server.coordinator.marker_sender import MarkerSender
from kraft.server.coordinator.shard_host import HostSettings, ShardHostServices
from kraft.server.coordinator.transaction_coordinators import TransactionCoordinators
from kraft.server.coordinator.transaction_kind import transaction_kind
from kraft.server.replica.partition import Partition
from kraft.server.replica.waiting_appends import WaitingAppends
from tests.support.cluster_images import ORDERS, cluster, with_topic
from tests.support.server.replicas import Broker, InlineExecutor, append_to, fetched, lead, settle
from tests.support.virtual_time import LoopClock
from tests.unit.server.coordinator.marker_leaders import MarkerLeaders

STATE = TopicId(UUID(int=51))
STATE_0 = TopicPartition(TRANSACTIONS_TOPIC, 0)
FIRST_PRODUCER_ID = 1_000
ID = "payments"


def orders(*numbers: int) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition("orders", number) for number in numbers)


class Transacting:
    """`__transaction_state` has one partition; `orders` has two, led by brokers 1 and 2."""

    def __init__(
        self, directory: Path, *, sync_before_ack: bool = False, settings: TransactionSettings | None = None
    ) -> None:
        """With `sync_before_ack`, nothing is committed until the test calls `broker.sync()`."""
        self.crashes: list[str] = []
        self.image: MetadataImage = with_topic(cluster(1, 2), [1], topic=TRANSACTIONS_TOPIC, topic_id=STATE)
        self.image = with_topic(self.image, [1, 2], [2, 1])
        self.leaders = MarkerLeaders()
        self.ids_refusal: Refusal | None = None
        """Why there are no producer ids."""
        self._numbers = count(FIRST_PRODUCER_ID)
        self._waiting_appends = WaitingAppends(InlineExecutor())
        self.sender = MarkerSender(lambda: self.image, self.leaders.write, self.crashes.append)
        self.coordinators = TransactionCoordinators(
            transaction_kind(settings or TransactionSettings()),
            ShardHostServices(
                settings=HostSettings(),
                context=self._context,
                waiting_appends=self._waiting_appends,
                executor=InlineExecutor(),
                background=InlineExecutor(),
                fatal=self.crashes.append,
            ),
            lambda: self.image,
            self.sender,
            self._new_producer_id,
        )
        self.broker = Broker(directory, sync_before_ack=sync_before_ack, role_changed=self.coordinators.role_changed)

    async def _new_producer_id(self) -> ProducerId:
        if self.ids_refusal is not None:
            raise self.ids_refusal
        return ProducerId(next(self._numbers))

    def _context(self) -> DecisionContext:
        return DecisionContext(now_ms=LoopClock().wall_ms(), image=self.image, random_id="id")

    async def __aenter__(self) -> Self:
        self.partition: Partition = self.broker.open(STATE_0, STATE)
        await self.lead(epoch=1)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.coordinators.drain()
        await self._waiting_appends.close()
        assert self.crashes == []

    async def lead(self, *, epoch: int, replicas: tuple[int, ...] = (1,)) -> None:
        """Lead the partition in a new epoch; the coordinator is loaded."""
        lead(self.partition, epoch=epoch, replicas=replicas)
        await settle()

    def catch_up(self) -> None:
        """Have the other replica fetch everything."""
        fetched(self.partition, self.partition.log.log_end_offset)

    def exhaust_epochs(self) -> None:
        """Write the last epoch that a producer is given for an id, as its transactions in between would."""
        transaction = self.transaction()
        last = replace(transaction.producer, epoch=ProducerEpoch(EPOCH_MAX - 1))
        ended = replace(transaction, state=TransactionState.EMPTY, producer=last, partitions=frozenset())
        key, value = encode(record_of(ID, ended, transaction_version=EPOCH_BUMP))
        append_to(self.partition, build_batch([Record(0, 1_000, key, value)]), -1)

    # --- requests ----------------------------------------------------------------------------------------------------

    async def do(self, command: TransactionCommand) -> Any:
        """Return the response, or the error code of the refusal."""
        try:
            return await self.coordinators.decide(command)
        except Refusal as refusal:
            return refusal.error_code

    async def init(self, transactional_id: str = ID) -> Any:
        return await self.do(InitProducerId(transactional_id=transactional_id, timeout_ms=60_000))

    async def begin(
        self, partitions: frozenset[TopicPartition], transactional_id: str = ID, client_version: int = EPOCH_BUMP
    ) -> ProducerIdAndEpoch:
        """Begin a producer's first transaction, with these partitions."""
        init = InitProducerId(transactional_id=transactional_id, timeout_ms=60_000)
        producer: ProducerIdAndEpoch = await self.coordinators.decide(init)
        await self.add(producer, partitions, transactional_id, client_version)
        return producer

    async def add(
        self,
        producer: ProducerIdAndEpoch,
        partitions: frozenset[TopicPartition],
        transactional_id: str = ID,
        client_version: int = EPOCH_BUMP,
    ) -> None:
        await self.coordinators.decide(
            AddPartitions(
                transactional_id=transactional_id,
                producer=producer,
                partitions=partitions,
                client_version=client_version,
            )
        )

    async def end(
        self,
        producer: ProducerIdAndEpoch,
        transactional_id: str = ID,
        *,
        commit: bool = True,
        client_version: int = EPOCH_BUMP,
    ) -> Any:
        return await self.do(
            EndTransaction(
                transactional_id=transactional_id, producer=producer, commit=commit, client_version=client_version
            )
        )

    async def prepared(self, *numbers: int, transactional_id: str = ID, commit: bool = True) -> None:
        """Decide a producer's first transaction, with these partitions of `orders`."""
        producer = await self.begin(orders(*numbers), transactional_id)
        after = await self.end(producer, transactional_id, commit=commit)
        assert isinstance(after, ProducerIdAndEpoch)

    # --- facts -------------------------------------------------------------------------------------------------------

    def transaction(self, transactional_id: str = ID) -> Transaction:
        """Return the committed state of an id."""
        return self.coordinators.committed(transactional_id).by_id[transactional_id]

    async def until_state(self, state: TransactionState, transactional_id: str = ID) -> None:
        """Wait, for at most an hour of virtual time."""
        async with asyncio.timeout(3_600):
            while self.transaction(transactional_id).state is not state:  # noqa: ASYNC110  It polls as a client does.
                await asyncio.sleep(0.01)

    # --- metadata ----------------------------------------------------------------------------------------------------

    def elect(self, number: int, leader: int) -> None:
        """Make a broker the leader of a partition of `orders`; -1: it has none."""
        partition = self.image.topics[ORDERS].partitions[number]
        change = PartitionChanged(
            topic_id=ORDERS,
            partition=number,
            replicas=list(partition.replicas),
            isr=list(partition.isr),
            leader=BrokerId(leader),
            leader_epoch=LeaderEpoch(partition.leader_epoch + 1),
            partition_epoch=PartitionEpoch(partition.partition_epoch + 1),
        )
        self.image = self.image.replay([change])

    def delete_state_topic(self) -> None:
        self.image = self.image.replay([TopicDeleted(topic_id=STATE)])

    def delete_orders(self) -> None:
        self.image = self.image.replay([TopicDeleted(topic_id=ORDERS)])
