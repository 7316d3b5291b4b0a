"""A small turn of `group_member_runs`, which goes through more members and events."""

from __future__ import annotations

import pytest

from kraft.testing import Cluster
from tests.soak.group_member_runs import Brokers, Fault, Pace, Protocol, run

FAULTS = (Fault.JOIN, Fault.JOIN, Fault.KILL, Fault.GROW, Fault.LEAVE)
QUICK = Pace(settled_s=0.3, period_s=0.25)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("protocol", Protocol)
def test_members_join_are_killed_and_get_more_partitions_while_records_are_read_and_committed_once(
    cluster: Cluster, protocol: Protocol
) -> None:
    happenings = run(protocol, Brokers.of(cluster), seed=1, faults=FAULTS, pace=QUICK)
    assert [each.members for each in happenings] == [2, 3, 2, 2, 1]
