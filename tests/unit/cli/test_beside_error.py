from __future__ import annotations

import pytest

from kraft.cli.cluster import beside_error
from kraft.rpc.peers import Unreachable


def test_what_a_look_at_the_cluster_met_does_not_replace_the_error_of_the_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def gather(bootstrap_server: str, timeout_ms: int) -> None:
        raise ValueError("anything")

    monkeypatch.setattr(beside_error, "gather", gather)
    told = beside_error.told_beside(Unreachable("node:9094", "no answer"), "node:9094")
    assert told == ["The state of the cluster could not be found out: anything"]
