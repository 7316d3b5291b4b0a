"""The power fails at every point of a log's life: see `tests.simulation.crash_points`."""

from __future__ import annotations

import pytest

from tests.simulation.crash_points import crash_everywhere
from tests.simulation.log_workload import Workload


@pytest.mark.parametrize("workload_seed", [0, 4, 17])
def test_every_crash_point_recovers_to_a_prefix_that_holds_everything_synced(workload_seed: int) -> None:
    tally = crash_everywhere(workload_seed)
    print(f"workload {workload_seed}: {tally}")
    assert tally.points >= 500
    if Workload(workload_seed).temper == "mixed":
        assert set(tally.steps) == set(Workload(0).kinds()), "every kind of step has had its turn"
