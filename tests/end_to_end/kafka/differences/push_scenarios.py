"""Pushes of clients' metrics (KIP-714): what a client is asked for, and when it may push."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final
from uuid import UUID

from kraft.local.cluster_files import HOST
from kraft.local.free_ports import ReservedPorts
from kraft.log.format.compression import Codec, compress
from kraft.testing import Cluster
from kraft.wire.declaration import ZERO_UUID
from kraft.wire.schema.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from kraft.wire.schema.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kraft.wire.schema.push_telemetry import PushTelemetryRequest
from tests.end_to_end.kafka.differences.peer import Peer
from tests.support.client_pushes import gauge, pushed, total

PUSH_SETTINGS: Final[Mapping[str, str]] = {"num.partitions": "2", "metric.reporters": "ClientMetricsTaker"}
"""With a plug-in that takes what is pushed (tests/support/kafka)."""

_CLIENT_METRICS: Final = 16
_SET, _DELETE = 0, 1
_VALID: Final = pushed(gauge("org.apache.kafka.producer.connection.count", 3.0), total("a.total", 1.0))
_BYTES_MAX: Final = 1 << 20


@contextmanager
def kraft_that_asks() -> Iterator[Cluster]:
    """A broker of ours that has somewhere to show what it is pushed."""
    with ReservedPorts(1) as (port,):
        settings = {"num.partitions": PUSH_SETTINGS["num.partitions"], "metrics.address": f"{HOST}:{port}"}
        with Cluster(1, overrides=settings) as cluster:
            yield cluster


class _Client:
    """An instance of a client."""

    def __init__(self, peer: Peer, name: str, number: int) -> None:
        self._peer = peer
        self._name = name
        self._id = UUID(int=0xB5E7A3258E54C5F9B6C0F1C1F1F0000 + number)

    def ask(self, label: str, keep: Callable[[Any], Any] = lambda answer: answer) -> int:
        """Return the id of the subscription."""
        request = GetTelemetrySubscriptionsRequest(client_instance_id=self._id)
        return int(self._peer.ask(f"{self._name}: {label}", request, 0, keep=keep).subscription_id)

    def push(
        self, label: str, subscription_id: int, data: bytes = _VALID, *, codec: int = 0, terminating: bool = False
    ) -> None:
        request = PushTelemetryRequest(
            client_instance_id=self._id,
            subscription_id=subscription_id,
            terminating=terminating,
            compression_type=codec,
            metrics=data,
        )
        self._peer.ask(f"{self._name}: {label}", request, 0)


def client_metrics_pushes(peer: Peer) -> None:
    numbers = iter(range(1, 100))

    def client(name: str) -> _Client:
        return _Client(peer, name, next(numbers))

    client("without a subscription").ask("asks")
    _subscribe(peer, "every", metrics="*", interval_ms="60000")
    _when_to_ask(client)
    _what_is_refused(peer, client)
    for codec in Codec:
        one = client(codec.name)
        one.push("pushes", one.ask("asks"), compress(codec, _VALID), codec=codec)
    _subscriptions_that_change(peer, client)


def _when_to_ask(client: Any) -> None:
    early = client("early")
    right = early.ask("asks")
    early.ask("asks again")
    early.push("pushes for another subscription", right + 1)
    early.ask("asks after that")
    early.ask("asks again after that")
    early.push("pushes too early", right)
    early.push("ends", right, terminating=True)
    early.push("ends again", right, terminating=True)
    early.push("pushes after its end", right)
    early.ask("asks after its end")
    punctual = client("punctual")
    right = punctual.ask("asks")
    punctual.push("pushes", right)
    punctual.push("pushes at once again", right)
    punctual.ask("asks at once again")
    unasked = client("unasked")
    unasked.push("pushes for anything", 7)
    unasked.ask("asks then")
    ending = client("ending")
    ending.push("ends for anything", 7, terminating=True)
    ending.ask("asks then")


def _what_is_refused(peer: Peer, client: Any) -> None:
    for codec in (5, 9, -1):
        one = client(f"codec {codec}")
        one.push("pushes", one.ask("asks"), codec=codec)
        one.ask("asks again")
    large = client("large")
    large.push("pushes too much", large.ask("asks"), bytes(_BYTES_MAX + 1))
    large.ask("asks again")
    empty = client("empty")
    empty.push("pushes nothing", empty.ask("asks"), b"")
    for codec in (Codec.ZSTD, Codec.LZ4, Codec.GZIP, Codec.SNAPPY):
        garbage = client(f"garbage in {codec.name}")
        garbage.push("pushes", garbage.ask("asks"), b"not compressed", codec=codec)
    bomb = client("bomb")
    bomb.push("pushes", bomb.ask("asks"), compress(Codec.ZSTD, bytes(4 * _BYTES_MAX)), codec=Codec.ZSTD)
    for number in (0, 1):
        request = PushTelemetryRequest(
            client_instance_id=UUID(int=number), subscription_id=7, terminating=False, compression_type=0, metrics=b""
        )
        peer.ask(f"push of reserved id {number}", request, 0)
    new = GetTelemetrySubscriptionsRequest(client_instance_id=ZERO_UUID)
    peer.ask("a new client", new, 0, keep=_without_subscription)
    reserved = GetTelemetrySubscriptionsRequest(client_instance_id=UUID(int=1))
    peer.ask("a reserved id asks", reserved, 0)


def _subscriptions_that_change(peer: Peer, client: Any) -> None:
    told = client("told anew")
    before = told.ask("asks")
    _subscribe(peer, "every", interval_ms="3600000")
    told.push("pushes for the old one", before)
    told.ask("asks for a longer interval than may be")
    told.ask("asks again")
    _subscribe(peer, "every", metrics="org.apache.kafka.producer.", interval_ms="70000")
    told.ask("asks for one prefix")
    _subscribe(peer, "of some software", metrics="b.", match="client_software_name=.*")
    _subscribe(peer, "of here", metrics="c.", match="client_source_address=127.*,client_source_port=[0-9]+")
    _subscribe(peer, "of elsewhere", metrics="d.", match="client_source_address=10.*")
    several = _Client(peer, "several", 1_000)
    # Of several metrics Kafka's order is that of a hash table, and the id follows from it.
    several.ask("asks", keep=_without_subscription)


def _without_subscription(answer: Any) -> Any:
    """Without what follows from a random id, or an order that nobody chose."""
    del answer["subscription_id"]
    answer["requested_metrics"].sort()
    return answer


def _subscribe(peer: Peer, name: str, **configs: str) -> None:
    resource = AlterConfigsResource(
        resource_type=_CLIENT_METRICS,
        resource_name=name,
        configs=tuple(
            AlterableConfig(name=key.replace("_", "."), config_operation=_SET, value=value)
            for key, value in configs.items()
        ),
    )
    answer = peer.call(IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False), 1)
    assert answer.responses[0].error_code == 0, answer
    peer.settle()


SCENARIOS: Final = (client_metrics_pushes,)
