"""The power fails at every point of a log's life: see `tests.simulation.crash_points`."""

from __future__ import annotations

import pytest

from tests.simulation.crash_points import crash_everywhere


@pytest.mark.parametrize("workload_seed", [0, 4, 17])
def test_every_crash_point_recovers_to_a_prefix_that_holds_everything_synced(workload_seed: int) -> None:
    tally = crash_everywhere(workload_seed)
    print(f"workload {workload_seed}: {tally}")
    assert tally.points >= 500
