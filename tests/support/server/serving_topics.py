"""Produce and Fetch as both listeners of a broker serve them, to a client whose rights take long to find out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from kraft.metadata.authorizer import CurrentAuthorizer
from kraft.metadata.image import MetadataImage
from kraft.model.access import Operation
from kraft.model.ids import TopicPartition
from kraft.model.principal import ANONYMOUS
from kraft.server.access.asker import Askers
from kraft.server.kafka_listener.apis.fetch import FetchApi
from kraft.server.kafka_listener.apis.leaders import Leaders
from kraft.server.kafka_listener.apis.produce import ProduceApi
from kraft.server.kafka_listener.fetch_sessions import PARTITIONS_MAX, FetchSessions, SharedFetches
from kraft.server.kafka_listener.requests import Api, KafkaRequests
from kraft.server.loop.budget import BeyondBudget, Budget
from kraft.wire.api_keys import ApiKey
from kraft.wire.codec import ELEMENTS_MAX
from tests.support.acl_entries import PREFIXED, acls_of, entry
from tests.support.cluster_images import ORDERS, cluster, with_topic
from tests.support.server.fetch_handlers import fetch_handler
from tests.support.server.produce_handlers import produce_handler
from tests.support.server.replicas import Broker, lead

NESTED: Final = 40
"""Prefixes of the client, each one letter longer than the last."""

SESSION: Final = 7


class Served:
    """A broker that leads the only partition of `orders`."""

    def __init__(self, directory: Path, operations: Sequence[Operation]) -> None:
        """The client may do these operations on topics that begin with letters of `t`, and on `orders`."""
        broker = Broker(directory, sync_before_ack=False)
        self.partition = broker.open(TopicPartition("orders", 0))
        lead(self.partition, replicas=(1,))
        self.image = _image(operations)
        self.askers = Askers(lambda: self.image, CurrentAuthorizer(frozenset(), allow_if_no_acl=False))
        self.produce = produce_handler(broker.partitions)
        self.fetch = fetch_handler(broker.partitions)
        self.sessions = FetchSessions(lambda: SESSION)
        shared, listener = SharedFetches(self.sessions, Budget(PARTITIONS_MAX), lambda: 1_000), "GRPC"
        leaders = Leaders(lambda: self.image, listener)
        self._apis: dict[ApiKey, Api] = {
            ApiKey.PRODUCE: ProduceApi(self.produce.begin, leaders, self.produce.refuse_unknown, self.askers),
            ApiKey.FETCH: FetchApi(self.fetch.begin, leaders, shared, self.askers),
        }
        self.largest = Budget(0, BeyondBudget.ALONE)

    def connection(self, elements_max: int = ELEMENTS_MAX) -> KafkaRequests:
        """Return what answers the requests of one connection."""
        return KafkaRequests(self._apis, "127.0.0.1:1", elements_max=elements_max, largest=self.largest)


def _image(operations: Sequence[Operation]) -> MetadataImage:
    nested = [
        entry("t" * length, each, principal=str(ANONYMOUS), pattern_type=PREFIXED)
        for length in range(1, NESTED + 1)
        for each in operations
    ]
    orders = [entry("orders", each, principal=str(ANONYMOUS)) for each in operations]
    return replace(with_topic(cluster(1), [1], topic="orders", topic_id=ORDERS), acls=acls_of((*nested, *orders)))
