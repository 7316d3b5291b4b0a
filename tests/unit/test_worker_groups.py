"""The order in which workers collect tests, and the one in which they run them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.worker_groups import (
    HUNGRY,
    LONGEST,
    SHARED,
    SHARES,
    Share,
    group_of,
    longest_first,
    next_group,
    rotated,
    worker_count,
)

ROOT = Path(__file__).parents[2]


def test_each_worker_begins_at_another_place_and_has_all() -> None:
    orders = [rotated("abcdefgh", worker, 4) for worker in range(4)]
    assert [order[:2] for order in orders] == [["a", "b"], ["c", "d"], ["e", "f"], ["g", "h"]]
    assert [sorted(order) for order in orders] == [[*"abcdefgh"]] * 4


def test_a_folder_with_fewer_files_than_workers_is_complete_for_each() -> None:
    assert [sorted(rotated("ab", worker, 4)) for worker in range(4)] == [["a", "b"]] * 4


def test_workers_run_in_one_order_whatever_the_order_of_their_files(request: pytest.FixtureRequest) -> None:
    items = request.session.items
    other = sorted(items, key=lambda item: str(item.path), reverse=True)
    assert longest_first(other) == longest_first(items)


SLOW, QUICK = "tests/end_to_end/kafka/test_kafka_kills.py", "tests/end_to_end/programs/test_dev.py"
SPARK, README = "a Spark session", "tests/end_to_end/programs/test_readme.py"
SIMULATION, UNIT = "tests/simulation/test_quorum.py", "tests/unit/log/test_change.py"


def order_of(share: Share) -> list[str]:
    """Return the groups in the order in which a worker would take them that were alone."""
    left, taken = [SPARK, README, SLOW, SIMULATION, QUICK, UNIT], []
    while left:
        taken.append(next_group(left, share))
        left.remove(taken[-1])
    return taken


def test_each_worker_begins_with_its_share_and_then_helps_the_others() -> None:
    assert order_of(Share.HUNGRY) == [SPARK, README, SLOW, QUICK, SIMULATION, UNIT]
    assert order_of(Share.LONGEST_WITH_NODES) == [SLOW, QUICK, SIMULATION, UNIT, SPARK, README]
    assert order_of(Share.QUICKEST_WITH_NODES) == [QUICK, SLOW, SIMULATION, UNIT, SPARK, README]
    assert order_of(Share.COMPUTING) == [SIMULATION, UNIT, QUICK, SLOW, SPARK, README]


def test_of_the_four_workers_for_two_cores_one_takes_what_is_hungry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    assert worker_count() == len(SHARES) == 4
    assert SHARES.count(Share.HUNGRY) == 1, "they would take each other's processor time"


def test_the_groups_that_are_named_are_there() -> None:
    assert len({*HUNGRY, *LONGEST}) == len(HUNGRY) + len(LONGEST)
    files = [each for each in (*HUNGRY, *LONGEST) if each not in SHARED]
    assert [each for each in files if not (ROOT / each).is_file() or group_of(f"{each}::test") != each] == []
