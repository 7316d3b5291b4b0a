"""What answers at a Kafka listener: made once for each, and not for each of its connections."""

from __future__ import annotations

from math import inf
from pathlib import Path
from typing import Any, cast

import pytest

from kraft.server.broker.apis import BrokerApis
from kraft.server.config.loading import load
from kraft.server.identity.kafka_tls import KafkaTls
from kraft.server.kafka_listener.listener import TlsAnswering
from kraft.server.kafka_listener.request_times import RequestTimes
from kraft.server.kafka_listener.requests import NodeConnections
from kraft.server.loop.throttling import Throttling
from kraft.server.loop.unread_responses import UnreadResponses
from kraft.server.process.kafka_answering import KafkaAnswering, kafka_limits
from kraft.tls.handshakes import TlsPeer
from tests.support.certificates import Authority


class CountingApis:
    """Counts for which listeners it was asked for APIs, and for what logs clients in."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.logins = self
        self.throttling = Throttling(lambda: 0)

    def kafka_apis(self, listener: str) -> dict[Any, Any]:
        self.asked.append(f"apis of {listener}")
        return {}

    def at(self, listener: str) -> None:
        self.asked.append(f"logins at {listener}")


@pytest.mark.parametrize(
    ("protocol", "asked"), [("SSL", ["apis of KAFKA"]), ("SASL_SSL", ["apis of KAFKA", "logins at KAFKA"])]
)
def test_connections_share_what_their_listener_has(tmp_path: Path, protocol: str, asked: list[str]) -> None:
    file, stores = tmp_path / "server.properties", Authority(tmp_path).certify("node")
    file.write_text(
        "process.roles=broker\nnode.id=1\ncontroller.quorum.voters=2@127.0.0.1:9093\n"
        f"log.dirs={tmp_path}/data\nlisteners=GRPC://127.0.0.1:9094,KAFKA://127.0.0.1:9092\n"
        f"listener.security.protocol.map=KAFKA:{protocol}\nssl.keystore.location={stores.keystore}\n"
    )
    config, apis = load(file), CountingApis()
    nodes = cast(NodeConnections, None)
    answering = KafkaAnswering(
        config, KafkaTls(config), cast(BrokerApis, apis), cast(UnreadResponses, None), nodes, RequestTimes()
    )
    listener = answering.at("KAFKA")
    assert isinstance(listener, TlsAnswering)
    made = [listener.after_handshake(TlsPeer(None, b"shown")) for _ in range(3)]
    assert len(set(made)) == len(made)
    assert apis.asked == asked


@pytest.mark.parametrize(
    ("line", "slow_s_min"), [("", inf), ("slow.request.log.ms=0", inf), ("slow.request.log.ms=250", 0.25)]
)
async def test_no_request_is_slow_unless_the_file_says_from_when(tmp_path: Path, line: str, slow_s_min: float) -> None:
    file = tmp_path / "server.properties"
    file.write_text(
        "process.roles=broker\nnode.id=1\ncontroller.quorum.voters=2@127.0.0.1:9093\n"
        f"log.dirs={tmp_path}/data\nlisteners=GRPC://127.0.0.1:9094,KAFKA://127.0.0.1:9092\n"
        f"listener.security.protocol.map=KAFKA:PLAINTEXT\n{line}\n"
    )
    assert (await kafka_limits(load(file), 100)).connection.slow_s_min == slow_s_min
