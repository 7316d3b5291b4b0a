"""The short form of `power_loss_runs`: real nodes on disks that lose what was not synced."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.nemesis.power_loss import CannotMount, Loss
from tests.soak import power_loss_runs


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_nothing_acknowledged_is_lost_when_the_power_of_all_nodes_fails_at_once(tmp_path: Path) -> None:
    losses = (Loss.ALL, Loss.PAGES)
    try:
        found = power_loss_runs.run(times=2, seed=1, directory=tmp_path, losses=losses, load_s=(0.3, 0.8), tell=print)
    except CannotMount as reason:
        pytest.skip(f"not run: {reason}")
    assert [met.loss for met in found] == [*losses]
    assert all(met.contents.is_exact and met.contents.acknowledged > 0 for met in found)
    assert all(met.acknowledged_changes > 0 for met in found)
    # If everything was synced, this test would show nothing.
    assert sum(met.unsynced_bytes for met in found) > 0
