"""The paths of Burrow, answered from lags that the test gives."""

from __future__ import annotations

import asyncio
import json
from typing import Any, cast

import pytest

from kraft.model.errors import ErrorCode, Refusal
from kraft.model.group_lags import UNKNOWN, GroupLag, PartitionLag, SeenCommit
from kraft.model.ids import Offset
from kraft.rpc.peers import Unreachable
from kraft.server.broker.cluster_lags import ClusterLags
from kraft.server.burrow import paths
from kraft.server.burrow.paths import BurrowPaths
from kraft.server.handlers.group_lags import group_lag, refused_group
from kraft.server.http.messages import Request

NOBODY = refused_group("nobody", Refusal(ErrorCode.GROUP_ID_NOT_FOUND, "there is no group 'nobody'"))
MOVING = refused_group("moving", Refusal(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "it is being loaded"))


def partition(number: int, state: str, lag: int, *commits: SeenCommit, topic: str = "orders") -> PartitionLag:
    return PartitionLag(
        topic=topic,
        partition=number,
        state=state,
        committed_offset=5,
        lag=lag,
        behind_ms=0,
        is_at_least=False,
        completeness=len(commits) / 10,
        commits=list(commits),
        owner=f"/10.0.0.{number}",
        client_id=f"client-{number}",
    )


SEEN = [SeenCommit(offset=at, timestamp_ms=1_000 * at, lag=UNKNOWN if at == 0 else 9 - at) for at in range(10)]
BILLING = group_lag("bill/ing", [partition(0, "OK", 0, *SEEN), partition(2, "STOP", 7, *SEEN[:2])])


class FakeLags:
    cluster_id = "c1"

    def partition_counts(self, group: GroupLag) -> dict[str, int]:
        return {each.topic: 4 for each in group.partitions}

    def topics(self) -> list[str]:
        return ["orders"]

    async def log_ends(self, topic: str) -> list[Offset | None] | None:
        return [Offset(5), None] if topic == "orders" else None

    async def of_group(self, group_id: str) -> GroupLag:
        return {"bill/ing": BILLING, "moving": MOVING}.get(group_id, NOBODY)

    async def of_all(self) -> list[GroupLag]:
        return [BILLING]


async def get(path: str, lags: FakeLags | None = None) -> tuple[int, dict[str, Any]]:
    asked = lags or FakeLags()
    burrow = BurrowPaths(asyncio.get_running_loop(), lambda: cast(ClusterLags, asked))
    response = await burrow.answer(Request(path=path))
    answer = json.loads(response.body)
    assert response.content_type == "application/json"
    assert answer.pop("request") == {"url": path, "host": ""}
    assert answer.pop("error") == (response.status >= 400 and "status" not in answer)
    return response.status, answer


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/v3/kafka", {"clusters": ["c1"]}),
        ("/v3/kafka/", {"clusters": ["c1"]}),
        ("/v3/kafka/c1/consumer", {"consumers": ["bill/ing"]}),
        ("/v3/kafka/c1/topic", {"topics": ["orders"]}),
        ("/v3/kafka/c1/topic/orders", {"offsets": [5, 0]}),
        ("/v3/kafka/c1/topic/orders/consumers", {"consumers": ["bill/ing"]}),
        ("/v3/kafka/c1/topic/other/consumers", {"consumers": []}),
    ],
)
async def test_lists_have_burrows_names(path: str, fields: dict[str, Any]) -> None:
    status, answer = await get(path)
    assert status == 200
    assert {name: answer[name] for name in fields} == fields


async def test_a_status_has_the_partitions_that_are_not_ok_and_a_lag_has_all() -> None:
    status, answer = await get("/v3/kafka/c1/consumer/bill%2Fing/status")
    found = answer["status"]
    stopped = {
        "topic": "orders",
        "partition": 2,
        "owner": "/10.0.0.2",
        "client_id": "client-2",
        "status": "STOP",
        "start": {"offset": 0, "timestamp": 0, "lag": None},
        "end": {"offset": 1, "timestamp": 1_000, "lag": 8},
        "current_lag": 7,
        "complete": 0.2,
    }
    assert status == 200
    assert found == {
        "cluster": "c1",
        "group": "bill/ing",
        "status": "ERR",
        "complete": 0.25,
        "partitions": [stopped],
        "partition_count": 4,
        "maxlag": stopped,
        "totallag": 7,
    }
    _, answer = await get("/v3/kafka/c1/consumer/bill%2Fing/lag")
    assert [each["partition"] for each in answer["status"]["partitions"]] == [0, 1, 2, 3]
    assert answer["status"]["partitions"][3] == {
        "topic": "orders",
        "partition": 3,
        "owner": "",
        "client_id": "",
        "status": "OK",
        "start": None,
        "end": None,
        "current_lag": 0,
        "complete": 0,
    }


async def test_a_groups_commits_are_in_the_place_of_their_partition() -> None:
    _, answer = await get("/v3/kafka/c1/consumer/bill%2Fing")
    partitions = answer["topics"]["orders"]
    assert [len(each["offsets"]) for each in partitions] == [10, 0, 2, 0]
    assert [each["current-lag"] for each in partitions] == [0, 0, 7, 0]
    assert [each["owner"] for each in partitions] == ["/10.0.0.0", "", "/10.0.0.2", ""]
    assert [each["client_id"] for each in partitions] == ["client-0", "", "client-2", ""]


@pytest.mark.parametrize(
    ("path", "status", "message"),
    [
        ("/v3/kafka/other/consumer", 404, "cluster not found: this is c1"),
        ("/v3/kafka/c1/consumer/nobody", 404, "cluster or consumer not found"),
        ("/v3/kafka/c1/consumer/moving", 503, "it is being loaded"),
        ("/v3/kafka/c1/consumer/moving/status", 503, "it is being loaded"),
        ("/v3/kafka/c1/topic/nothing", 404, "cluster or topic not found"),
        ("/v3/kafka/c1/nothing", 404, "there is no such path"),
    ],
)
async def test_what_is_not_there_is_said(path: str, status: int, message: str) -> None:
    assert await get(path) == (status, {"message": message})


async def test_a_group_that_is_not_there_has_a_status_too() -> None:
    status, answer = await get("/v3/kafka/c1/consumer/nobody/status")
    assert status == 404
    assert answer["status"]["status"] == "NOTFOUND"


@pytest.mark.parametrize("path", ["/v3/kafka/c1/consumer", "/v3/kafka/c1/topic/orders/consumers"])
async def test_a_list_lacks_no_groups_of_a_broker_that_is_down(path: str) -> None:
    class Down(FakeLags):
        async def of_all(self) -> list[GroupLag]:
            raise Unreachable("b2:9094", "no answer")

    said = "a coordinator does not answer: b2:9094 cannot be reached: no answer"
    assert await get(path, Down()) == (503, {"message": said})


async def test_a_node_that_hangs_or_is_no_broker_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    class Hanging(FakeLags):
        async def of_all(self) -> list[GroupLag]:
            await asyncio.Event().wait()
            raise AssertionError("it was cancelled")

    monkeypatch.setattr(paths, "ANSWER_S_MAX", 0.01)
    assert await get("/v3/kafka/c1/consumer", Hanging()) == (503, {"message": "the node's event loop does not answer"})
    response = await BurrowPaths(asyncio.get_running_loop(), lambda: None).answer(Request(path="/v3/kafka"))
    assert response.status == 503
