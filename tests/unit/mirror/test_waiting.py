"""A pair whose clusters are away waits for them, says which one it is, and can be stopped meanwhile."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import structlog

from kraft.mirror import pairs
from kraft.mirror.clients import addresses_of, with_alias
from kraft.mirror.config import PairConfig, mirror_config
from kraft.mirror.pairs import PairWorker
from kraft.mirror.repeats import CannotMirror
from kraft.mirror.throttle import Throttle
from kraft.model.errors import ErrorCode, InvalidBatch, KraftError, Refusal
from kraft.rpc.peers import Unreachable


def pair() -> PairConfig:
    settings = {"A.bootstrap.servers": "kafka1:9092,kafka2:9092", "B.bootstrap.servers": "kraft1:909"}
    return mirror_config({"clusters": "A, B", **settings, "A->B.enabled": "true"}).pairs[0]


async def begun_after(monkeypatch: pytest.MonkeyPatch, *errors: KraftError) -> list[Any]:
    """Run a worker whose beginning fails with these errors and is stopped after; return the reasons that it logs."""
    stopped, left = asyncio.Event(), list(errors)

    async def begin(*_: object) -> None:
        if left:
            raise left.pop(0)
        stopped.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(pairs, "begin", begin)
    monkeypatch.setattr(pairs, "BEGIN_AGAIN_S", 0.001)
    worker = PairWorker("m", pair(), frozenset({"A", "B"}), "one", Throttle(0))
    with structlog.testing.capture_logs() as logged:
        async with asyncio.timeout(10):
            await worker.run(stopped)
    return [each["reason"] for each in logged if each["log_level"] == "warning"]


async def test_a_cluster_that_is_away_is_waited_for_and_named_until_the_mirror_is_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loading = Refusal(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "soon")
    reasons = await begun_after(monkeypatch, Unreachable("kraft1:909", "refused"), loading)
    assert reasons == ["cluster B: kraft1:909 cannot be reached: refused", "COORDINATOR_LOAD_IN_PROGRESS: soon"]


@pytest.mark.parametrize(
    "error",
    [CannotMirror("a cycle"), Refusal(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "no right"), InvalidBatch("no position")],
    ids=str,
)
async def test_what_somebody_has_to_change_ends_the_mirror(monkeypatch: pytest.MonkeyPatch, error: KraftError) -> None:
    with pytest.raises(type(error)):
        await begun_after(monkeypatch, error)


def test_only_whole_addresses_name_a_cluster() -> None:
    addresses = addresses_of(pair())
    assert with_alias("no broker answered (kafka2:9092: refused)", addresses).startswith("cluster A: no broker")
    assert with_alias("kraft1:9092 is another one", addresses) == "kraft1:9092 is another one"
    assert with_alias("of-kraft1:909", addresses) == "of-kraft1:909"
