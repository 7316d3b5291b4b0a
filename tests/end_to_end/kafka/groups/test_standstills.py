"""No client stands still for long after its coordinator, its leader or the active controller was lost.

`python -m tests.soak.standstill_runs` does the same longer, with more clients, and prints the figures.
"""

from __future__ import annotations

import pytest

from kraft.testing import Cluster
from tests.soak.standstill_runs import NODES, SETTINGS, STANDSTILL_S_MAX, Fault, run

SEED = 1


@pytest.mark.slow
def test_members_with_the_settings_of_their_clients_read_on_after_kills() -> None:
    faults = (Fault.KILL_COORDINATOR, Fault.KILL_CONTROLLER)
    with Cluster(NODES, overrides=SETTINGS) as cluster:
        standstills = run(cluster, SEED, faults, ("aiokafka", "confluent"))
    assert len(standstills) == len(faults) * 3
    assert max(each.longest_s for each in standstills) < STANDSTILL_S_MAX, standstills
