from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import cast

import pytest

from chaos.nemesis import links
from chaos.toxiproxy import Server
from tests.unit.chaos.fake_nodes import FakeTargets

DONE = {
    "latency": ["latency upstream broker-1", "latency downstream broker-1", "mend broker-1"],
    "bandwidth": ["bandwidth upstream broker-1", "bandwidth downstream broker-1", "mend broker-1"],
    "slow-close": ["slow_close downstream broker-1", "mend broker-1"],
    "cut": ["cut broker-1", "mend broker-1"],
    "reset": ["reset_peer downstream broker-1", "mend broker-1"],
}


class FakeServer:
    def __init__(self) -> None:
        self.done: list[str] = []

    def cut(self, name: str) -> None:
        self.done.append(f"cut {name}")

    def poison(self, name: str, kind: str, attributes: Mapping[str, int], stream: str = "downstream") -> None:
        assert all(amount >= 0 for amount in attributes.values())
        self.done.append(f"{kind} {stream} {name}")

    def mend(self, name: str) -> None:
        self.done.append(f"mend {name}")


@pytest.mark.parametrize("name", DONE)
def test_a_fault_is_done_to_the_leaders_link_and_undone(name: str) -> None:
    server = FakeServer()
    made = links.kinds(FakeTargets().as_targets(), cast(Server, server), Random(1))
    kinds = {kind.name: kind for kind in made}
    broken = kinds[name].strike()
    broken.mend()

    assert broken.target.startswith("node 1, ")
    for place, proxy in enumerate(("broker-1", "broker-1-kafka")):
        assert server.done[place::2] == [f"{done}{proxy.removeprefix('broker-1')}" for done in DONE[name]]


def test_every_named_fault_exists() -> None:
    made = links.kinds(FakeTargets().as_targets(), cast(Server, FakeServer()), Random(1))
    assert tuple(kind.name for kind in made) == links.NAMES == tuple(DONE)
