"""Floods of strangers on a node that may open 1,024 files: the short form of `tests.soak.stranger_runs`."""

from __future__ import annotations

import pytest

from kraft.server.config.values import CONTROLLER, GRPC, PLAINTEXT
from tests.soak import stranger_runs
from tests.soak.stranger_runs import FILES_MAX, GROWTH_BYTES_MAX


@pytest.mark.slow
def test_a_node_survives_floods_on_each_port_in_bounded_memory() -> None:
    floods = ((GRPC, "prefaces"), (CONTROLLER, "prefaces"), (GRPC, "unfinished"), (PLAINTEXT, "connections"))
    measured = list(stranger_runs.run([kind for _, kind in floods], [port for port, _ in floods], hold_s=1.5))
    assert [(each.port, each.kind) for each in measured] == list(floods)
    for each in measured:
        assert (each.problem, each.failed) == (None, 0), each
        assert each.resident_max - each.resident_before < GROWTH_BYTES_MAX, each
        assert each.files_max < FILES_MAX, each
