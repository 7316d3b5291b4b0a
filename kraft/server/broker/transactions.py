"""Assembly: the coordinators of transactions on this broker, and its calls to those on others."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from kraft.metadata.topic_names import TRANSACTIONS_TOPIC
from kraft.model.callbacks import Callback
from kraft.model.ids import BrokerId
from kraft.rpc.call import Call
from kraft.rpc.cluster_calls import ADD_PARTITIONS_TO_TXN, WRITE_TXN_MARKERS
from kraft.server.broker.coordinator_services import CoordinatorServices
from kraft.server.broker.other_brokers import OtherBrokers
from kraft.server.cluster.producer_ids import ProducerIds
from kraft.server.coordinator.calls_in_service import while_in_service
from kraft.server.coordinator.hanging_transactions import HangingTransactions
from kraft.server.coordinator.marker_sender import MarkerSender
from kraft.server.coordinator.record_sizes import BATCH_BYTES_MIN, batch_bytes_max
from kraft.server.coordinator.shard_host import ShardHostServices
from kraft.server.coordinator.topic_shards import decision_context
from kraft.server.coordinator.transaction_coordinators import TransactionCoordinators
from kraft.server.coordinator.transaction_kind import (
    transaction_host_settings,
    transaction_kind,
    transaction_settings,
)
from kraft.server.coordinator.transaction_verifier import TransactionVerifier
from kraft.server.handlers.transactions import TransactionsHandler
from kraft.server.handlers.txn_markers import AppendGroupMarker, TxnMarkersHandler
from kraft.server.loop.threads import shut_down
from kraft.wire.schema.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from kraft.wire.schema.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse

Request = TypeVar("Request")
Response = TypeVar("Response")

CALL_S_MAX: Final = 5.0
"""Deadline of a call between coordinators and the leaders of partitions."""


class BrokerTransactions:
    def __init__(
        self, services: CoordinatorServices, *, create_offsets_topic: Callback, append_group_marker: AppendGroupMarker
    ) -> None:
        config, world, metadata, logs, waiting_appends = services
        self._config = config
        self._image = metadata.image
        self._logs = logs
        self.brokers = OtherBrokers(world, metadata.image)
        self.producer_ids = ProducerIds(metadata.registration, metadata.controllers)
        self.markers = TxnMarkersHandler(
            logs.partitions,
            waiting_appends,
            world.clock.wall_ms,
            append_group_marker,
            HangingTransactions(metadata.image, self._call).check,
        )
        self.verifier = TransactionVerifier(metadata.image, self._add_partitions, world.fatal)
        self._load_thread = ThreadPoolExecutor(1, thread_name_prefix="coordinator-load")
        self.coordinators = TransactionCoordinators(
            transaction_kind(transaction_settings(config, self._batch_bytes_max)),
            ShardHostServices(
                settings=transaction_host_settings(config),
                context=lambda: decision_context(world.clock, world.entropy, metadata.image()),
                waiting_appends=waiting_appends,
                executor=self._load_thread,
                background=self._load_thread,
                fatal=world.fatal,
            ),
            metadata.image,
            MarkerSender(metadata.image, self._write_markers, world.fatal),
            self.producer_ids.new,
        )
        self.handler = TransactionsHandler(
            self.coordinators, metadata.image, create_offsets_topic, world.clock.wall_ms, self._load_thread
        )

    async def close(self) -> None:
        """End, after the coordinators were drained."""
        await self.verifier.close()
        await shut_down(self._load_thread, drops_waiting=True)
        await self.brokers.connections.close()

    # --- calls to other brokers, or to this one ------------------------------------------------------------------

    async def _write_markers(self, broker_id: BrokerId, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
        if broker_id == self._config.node_id:
            return await self.markers.write(request)
        return await self._call(broker_id, WRITE_TXN_MARKERS, request)

    async def _add_partitions(
        self, broker_id: BrokerId, request: AddPartitionsToTxnRequest
    ) -> AddPartitionsToTxnResponse:
        if broker_id == self._config.node_id:
            return await self.handler.add_partitions_of_brokers(request)
        return await self._call(broker_id, ADD_PARTITIONS_TO_TXN, request)

    async def _call(self, broker_id: BrokerId, call: Call[Request, Response], request: Request) -> Response:
        """Call a broker at its registered address. Raises Unreachable, also once it is fenced, or its Refusal."""
        answer = self.brokers.peer(broker_id).call(call, request, CALL_S_MAX)
        return await while_in_service(broker_id, answer, self._image)

    def _batch_bytes_max(self) -> int:
        """Return the size of the largest batch that transactions may fill in `__transaction_state`."""
        sizes = (
            batch_bytes_max(partition.log.config)
            for partition in self._logs.partitions
            if partition.topic_partition.topic == TRANSACTIONS_TOPIC
        )
        return min(sizes, default=BATCH_BYTES_MIN)
