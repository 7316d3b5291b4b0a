from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kraft.model.errors import Corruption
from kraft.rpc.refusal_log import RefusalLog
from kraft.server.broker.broker_node import BrokerNode
from kraft.server.broker.lifecycle import BrokerRefused
from kraft.server.config.node_config import NodeConfig
from kraft.server.identity import storage
from kraft.server.identity.credentials import NodeCredentials
from kraft.server.identity.storage import NodeStorage
from kraft.server.process.node import StartError, _in_one_line, _Node


class FakeBroker:
    """Notes what it is told, and does in each step what the test says."""

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.at_hand_on: Callable[[], None] = lambda: None
        self.at_close: Callable[[], None] = lambda: None

    async def run(self) -> None:
        try:
            await asyncio.sleep(3_600)
        finally:
            self.steps.append("run ended")

    log_directories_closed = ("/a", "/b")

    async def move_leaderships_away(self) -> None:
        self.steps.append("handed on")
        self.at_hand_on()

    async def close(self) -> None:
        self.steps.append("closed")
        self.at_close()


@pytest.fixture
def marked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    marks: list[str] = []
    monkeypatch.setattr(
        storage,
        "leave_clean_shutdown_markers",
        lambda directories: marks.extend(f"{one} marked as clean" for one in directories),
    )
    return marks


def stopping(broker: FakeBroker, scenario: Callable[[_Node], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        config = cast(NodeConfig, SimpleNamespace(node_id=1, kafka_listeners=(), is_broker=True, is_controller=True))
        credentials = SimpleNamespace(refusals=RefusalLog(lambda: 0))
        node = _Node(config, cast(NodeStorage, SimpleNamespace(cluster_id="c")), cast(NodeCredentials, credentials))
        node._failed = asyncio.get_running_loop().create_future()
        node._broker = cast(BrokerNode, broker)
        node._run_role("broker", broker.run())
        await asyncio.sleep(0)
        await scenario(node)

    asyncio.run(run())


def test_a_stop_moves_leaderships_then_ends_then_closes_and_only_then_marks_the_disk_as_clean(
    marked: list[str],
) -> None:
    broker = FakeBroker()
    stopping(broker, lambda node: node._stop())
    assert [*broker.steps, *marked] == ["handed on", "run ended", "closed", "/a marked as clean", "/b marked as clean"]


def test_a_disk_that_fails_during_the_stop_is_not_marked_as_clean(marked: list[str]) -> None:
    broker = FakeBroker()

    async def scenario(node: _Node) -> None:
        broker.at_close = lambda: node._fail("orders-0: input/output error")
        with pytest.raises(StartError, match="orders-0: input/output error"):
            await node._stop()

    stopping(broker, scenario)
    assert marked == []


def test_a_checkpoint_that_cannot_be_written_at_the_stop_is_one_line_and_no_clean_stop(marked: list[str]) -> None:
    broker = FakeBroker()

    def fail() -> None:
        raise OSError(28, "No space left on device")

    async def scenario(node: _Node) -> None:
        broker.at_close = fail
        with pytest.raises(StartError, match="No space left on device"):
            await node._stop()

    stopping(broker, scenario)
    assert marked == []


def test_a_broker_whose_id_was_taken_meanwhile_still_closes_its_logs(marked: list[str]) -> None:
    broker = FakeBroker()

    def refuse() -> None:
        raise BrokerRefused("another process registered as this broker")

    broker.at_hand_on = refuse
    stopping(broker, lambda node: node._stop())
    assert broker.steps[-1] == "closed"


def test_a_role_that_fails_while_the_node_stops_is_reported_and_the_rest_is_closed(marked: list[str]) -> None:
    broker = FakeBroker()

    async def fails_as_it_ends() -> None:
        try:
            await asyncio.sleep(3_600)
        finally:
            raise Corruption("orders-0", 7, "bad checksum")

    async def scenario(node: _Node) -> None:
        node._run_role("controller", fails_as_it_ends())
        await asyncio.sleep(0)
        with pytest.raises(StartError, match="orders-0 at byte 7: bad checksum"):
            await node._stop()

    stopping(broker, scenario)
    assert broker.steps[-1] == "closed"
    assert marked == []


def test_the_error_that_ends_a_role_is_one_line_at_any_depth_of_groups() -> None:
    nested = ExceptionGroup("", [ExceptionGroup("", [BrokerRefused("give each node its own node.id")])])
    assert _in_one_line(nested, "broker") == "give each node its own node.id"
    assert "internal error in the broker: KeyError('x')" in _in_one_line(KeyError("x"), "broker")
