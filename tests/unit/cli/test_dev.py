from __future__ import annotations

from types import SimpleNamespace
from typing import cast

from kraft.cli.dev import what_is_left
from kraft.local.node_process import NodeProcess


def nodes(*node_ids: int, voters: int = 3) -> list[NodeProcess]:
    return [cast(NodeProcess, SimpleNamespace(node_id=each, is_controller=each <= voters)) for each in node_ids]


def left(running: list[NodeProcess], ended: list[NodeProcess]) -> str:
    return what_is_left(running, [(node, "12:00:07") for node in ended])


def test_the_other_nodes_continue_while_a_majority_of_the_voters_runs() -> None:
    assert left(nodes(1, 3), nodes(2)) == "The other nodes continue."
    assert left(nodes(1, 2, 3), nodes(4, 5)) == "The other nodes continue."


def test_without_a_majority_no_controller_is_active() -> None:
    said = left(nodes(1, 4), nodes(2, 3, 5))
    assert "No controller is active: 1 of 3 voters run, and 2 are needed" in said
    assert "unreachable: node 2 (since 12:00:07), node 3 (since 12:00:07)." in said
