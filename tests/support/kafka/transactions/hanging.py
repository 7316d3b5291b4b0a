"""A transaction that hangs, in a cluster whose brokers do not verify transactions, as before KIP-890."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

from kraft.log.format.record_batch import build_batch
from kraft.log.format.record_codec import Record
from kraft.model.errors import ErrorCode
from kraft.testing import Cluster
from kraft.wire.declaration import Message
from kraft.wire.schema.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.support.kafka.login_cluster import LoginCluster
from tests.support.kafka.single_requests import response
from tests.support.waiting import until

_PRODUCE_VERSION: Final = 11
_AGE_MS: Final = 20 * 60_000


Ask = Callable[[str, Message, int], Any]
"""Sends a request in a version to a server, and returns its response."""


def hang(cluster: Cluster | LoginCluster, topic: str, producer_id: int, ask: Ask = response) -> None:
    """Write a batch of a transaction that no coordinator knows, as of twenty minutes ago."""
    records = [Record(0, int(time.time() * 1_000) - _AGE_MS, None, b"undecided")]
    batch = build_batch(records, producer_id=producer_id, producer_epoch=3, base_sequence=0, transactional=True)
    data = TopicProduceData(name=topic, partition_data=(PartitionProduceData(index=0, records=batch),))
    request = ProduceRequest(transactional_id="gone", acks=-1, timeout_ms=30_000, topic_data=(data,))

    def is_written() -> bool:
        codes = [
            ask(server, request, _PRODUCE_VERSION).responses[0].partition_responses[0].error_code
            for server in cluster.kafka_bootstrap_servers.split(",")
        ]
        # Brokers that do not lead the partition refuse it.
        return ErrorCode.NONE in codes

    until(is_written, f"the batch was not written to {topic}")
