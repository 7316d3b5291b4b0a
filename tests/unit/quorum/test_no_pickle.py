"""Nothing unpickles bytes from the network, the engine's own code included: that would run arbitrary code."""

from __future__ import annotations

import ast
import asyncio
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pysyncobj.journal
import pysyncobj.pickle
import pytest

import kraft
from kraft.quorum.frames import from_frame
from kraft.quorum.messages import BadMessage
from kraft.quorum.pb import raft_pb2
from tests.unit.quorum.loopback import propose, running_cluster, until

EXECUTING = {"cPickle", "cloudpickle", "dill", "marshal", "pickle", "shelve"}


def imported(file: Path) -> Iterator[str]:
    """The first part of every module that the file imports, wherever it does so."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield (node.module or "").partition(".")[0]
            yield from (alias.name for alias in node.names)


def test_nothing_imports_what_executes_bytes() -> None:
    sources = list(Path(kraft.__file__).parent.rglob("*.py"))
    assert len(sources) > 100
    assert [str(file) for file in sources if EXECUTING.intersection(imported(file))] == []


class Bomb:
    """Unpickling it makes the file."""

    def __init__(self, canary: Path) -> None:
        self._canary = canary

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return Path.touch, (self._canary,)


def test_the_engine_elects_replicates_and_recovers_without_its_pickle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    bomb = pickle.dumps(Bomb(tmp_path / "executed"))

    def recording(module: Any, name: str) -> Callable[..., Any]:
        original = getattr(module, name)

        def called(*arguments: Any, **named: Any) -> Any:
            calls.append(name)
            return original(*arguments, **named)

        return called

    for module in (pysyncobj.pickle, pysyncobj.journal):
        for name in ("dump", "dumps", "load", "loads"):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, recording(module, name))

    async def run() -> None:
        async with running_cluster(tmp_path) as cluster:
            leader = await cluster.leader()
            await propose(leader, bomb)
            await cluster.stop(leader.config.node_id)
            successor = await cluster.leader(set(cluster.voters) - {leader.config.node_id})
            await propose(successor, b"meanwhile")
            back = await cluster.start(leader.config.node_id)
            await until(lambda: back.listener.payloads == [bomb, b"meanwhile"])

    asyncio.run(run())
    assert calls == []
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize("command_type", range(256))
def test_no_command_that_the_engine_would_unpickle_gets_past_the_frame(tmp_path: Path, command_type: int) -> None:
    canary = tmp_path / "executed"
    command = bytes([command_type]) + pickle.dumps(Bomb(canary))
    entry = raft_pb2.RaftEntry(term=1, command=command)
    append = raft_pb2.RaftAppend(term=1, previous_index=1, previous_term=0, entries=[entry])
    frame = raft_pb2.RaftFrame(batch=raft_pb2.RaftBatch(messages=[raft_pb2.RaftMessage(append=append)]))
    with pytest.raises(BadMessage):
        from_frame(frame)
    assert not canary.exists()
