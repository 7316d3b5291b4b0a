"""Faults of the scripted night that take no means of their own, in one cluster: what an operator sees names each.

The whole night, with networks and disks, is `python -m tests.soak.night_runs`.
"""

from __future__ import annotations

import re
import shutil
import time
from pathlib import Path
from typing import Final

import pytest

from tests.soak.night.faults import FAULTS
from tests.soak.night.hurried_alerts import PROGRAM, RULES, hurried
from tests.soak.night.transcript import seen, transcript
from tests.soak.night.world import Night, Surroundings, night
from tests.support.waiting import until

DEADLINE_S: Final = 120
NAMED: Final = {each.name: each for each in FAULTS}


def is_named(world: Night, *names: str) -> None:
    """Inject the faults; wait for their alerts, and look."""
    struck_at = time.time()
    for name in names:
        NAMED[name].strike(world)
    asked = [NAMED[name].alerts for name in names]

    def fire() -> bool:
        firing = {each.name for each in world.prometheus.firing()}
        return all(firing & each for each in asked)

    until(fire, lambda: f"of {asked} only {[each.name for each in world.prometheus.firing()]}", DEADLINE_S)
    sight = seen(world, struck_at, world.prometheus.firing())
    for name in names:
        assert NAMED[name].unnamed(sight) == "", transcript(sight)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which(PROGRAM) is None, reason="needs Debian's package prometheus")
def test_what_an_operator_sees_names_the_fault(tmp_path: Path) -> None:
    with night(tmp_path, Surroundings.PLAIN) as world:
        is_named(world, "transaction", "rebalances")
        is_named(world, "killed")


def test_only_the_durations_of_the_rules_are_shortened() -> None:
    shortened = hurried("rate(x[5m]) > 300\n  for: 10m\n  for: 30s # 5m")
    assert shortened == "rate(x[20000ms]) > 300\n  for: 40000ms\n  for: 2000ms # 5m"
    rules = RULES.read_text()
    durations = re.compile(r"(?<=for: )\w+|(?<=\[)\w+(?=\])")
    assert durations.sub("", hurried(rules)) == durations.sub("", rules)
    assert all(each.endswith("ms") for each in durations.findall(hurried(rules)))
