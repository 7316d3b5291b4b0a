from __future__ import annotations

import pytest

from chaos.nemesis import processes
from tests.unit.chaos.fake_nodes import FakeTargets

DONE = {
    "kill-leader": ["kill 1", "start 1"],
    "kill-follower": ["kill 2", "start 2"],
    "kill-controller": ["kill 3", "start 3"],
    "kill-random": ["kill 2", "start 2"],
    "kill-all": ["kill 1", "kill 2", "kill 3", "start 1", "start 2", "start 3"],
    "pause": ["pause 1", "resume 1"],
    "pause-controller": ["pause 3", "resume 3"],
    "restart": ["terminate 1", "start 1"],
}


@pytest.mark.parametrize("name", DONE)
def test_a_fault_is_done_and_undone(name: str) -> None:
    targets = FakeTargets()
    kinds = {kind.name: kind for kind in processes.kinds(targets.as_targets())}
    kinds[name].strike().mend()

    assert targets.done == DONE[name]


def test_every_named_fault_exists() -> None:
    assert tuple(kind.name for kind in processes.kinds(FakeTargets().as_targets())) == processes.NAMES == tuple(DONE)
