from __future__ import annotations

import pytest

from kraft.model.errors import ErrorCode
from kraft.model.find_coordinator import Coordinator, CoordinatorType
from kraft.model.find_coordinator import FindCoordinatorRequest as Asked
from kraft.model.find_coordinator import FindCoordinatorResponse as Found
from kraft.server.kafka_listener.apis.find_coordinator import FindCoordinatorApi
from kraft.wire.schema.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tests.unit.server.kafka_listener.apis.listener import answered

GROUP, TRANSACTION, SHARE = (int(each) for each in CoordinatorType)


async def handle(asked: Asked) -> Found:
    return Found(coordinators=tuple(_coordinator(key) for key in asked.keys))


def _coordinator(key: str) -> Coordinator:
    if key == "lost":
        return Coordinator(key=key, error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE, error_message="no leader")
    return Coordinator(key=key, node_id=7, host="broker", port=9092)


async def ask(request: FindCoordinatorRequest, version: int) -> FindCoordinatorResponse:
    return await answered(FindCoordinatorApi(handle), request, version, FindCoordinatorResponse)


@pytest.mark.parametrize("version", range(4))
async def test_earlier_versions_ask_for_one_coordinator(version: int) -> None:
    found = await ask(FindCoordinatorRequest(key="group"), version)
    assert (found.error_code, found.node_id, found.host, found.port) == (0, 7, "broker", 9092)
    assert found.coordinators == ()
    if version > 0:
        assert found.error_message == "NONE"
    lost = await ask(FindCoordinatorRequest(key="lost"), version)
    assert (lost.error_code, lost.node_id, lost.host, lost.port) == (15, -1, "", -1)


@pytest.mark.parametrize("version", range(4, 7))
async def test_later_versions_ask_for_many(version: int) -> None:
    found = await ask(FindCoordinatorRequest(coordinator_keys=("a", "lost", "b")), version)
    assert [(each.key, each.error_code, each.node_id, each.host, each.port) for each in found.coordinators] == [
        ("a", 0, 7, "broker", 9092),
        ("lost", 15, -1, "", -1),
        ("b", 0, 7, "broker", 9092),
    ]
    assert [each.error_message for each in found.coordinators] == ["", "no leader", ""]


@pytest.mark.parametrize(("key_type", "version"), [(SHARE, 5), (3, 6), (-1, 6)])
async def test_a_type_that_the_version_does_not_have_is_refused(key_type: int, version: int) -> None:
    found = await ask(FindCoordinatorRequest(key_type=key_type, coordinator_keys=("a", "b")), version)
    assert [(each.key, each.error_code) for each in found.coordinators] == [("a", 42), ("b", 42)]


async def test_a_type_that_an_earlier_version_does_not_have_is_refused() -> None:
    found = await ask(FindCoordinatorRequest(key="a", key_type=9), 3)
    assert (found.error_code, found.node_id) == (42, -1)
