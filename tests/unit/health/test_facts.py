"""How the facts are asked for."""

from __future__ import annotations

from typing import Any

import pytest

from kraft.client import Admin
from kraft.health.facts import _fenced
from kraft.model.endpoint import Endpoint
from kraft.model.errors import KraftError
from tests.support.cluster_facts import broker


@pytest.mark.parametrize("listener", ["GRPC", ""], ids=["by gRPC", "by Kafka's protocol, which names no listener"])
def test_a_broker_that_is_not_in_service_is_asked_itself(listener: str) -> None:
    asked: list[str] = []

    def opened(servers: str, _: int) -> Admin:
        asked.append(servers)
        raise KraftError("nobody is there")

    away: Any = broker(3, fenced=True, addresses=[Endpoint(listener=listener, host="::1", port=9392)])
    assert str(_fenced(opened, [broker(1), away], 1_000)[3]) == "nobody is there"
    assert asked == ["[::1]:9392"]
