"""The pace of a load, and its payloads."""

from __future__ import annotations

from pathlib import Path

import pytest

from kraft.model.errors import KraftError
from kraft.perf.payloads import file_payloads, monotonic_payloads, random_payloads
from kraft.perf.rates import Pace, Rate


def test_a_pace_lets_through_what_is_due_and_catches_up() -> None:
    pace = Pace(100, began_s=5.0)
    assert pace.due(sent=0, wanted=10, now_s=5.0) == 1
    assert pace.due(sent=1, wanted=10, now_s=5.0) == 0
    assert pace.wait_s(sent=1, now_s=5.0) == pytest.approx(0.01)
    assert pace.due(sent=1, wanted=1_000, now_s=6.0) == 100


def test_without_a_rate_everything_is_due() -> None:
    assert (Pace(-1, 0.0).due(7, 10, 0.0), Pace(-1, 0.0).wait_s(7, 0.0)) == (10, 0.0)


def test_a_rate_since_an_earlier_one_is_of_what_came_between() -> None:
    earlier = Rate(records=10, size_bytes=1 << 20, elapsed_s=1.0)
    now = Rate(records=40, size_bytes=3 << 20, elapsed_s=3.0)
    assert (now.since(earlier).records_per_s, now.since(earlier).mb_per_s) == (15.0, 1.0)


def test_payloads_have_the_size_or_come_from_the_file(tmp_path: Path) -> None:
    (random_one,) = random_payloads(20)(5, 1)
    assert (len(random_one), random_one.isupper()) == (20, True)
    assert monotonic_payloads(9, 2) == [b"9", b"10"]
    file = tmp_path / "lines"
    file.write_bytes(b"one\n\ntwo\n")
    assert set(file_payloads(file, b"\n")(0, 100)) == {b"one", b"two"}


def test_a_file_without_payloads_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_bytes(b"\n\n")
    with pytest.raises(KraftError, match="has no payloads"):
        file_payloads(file, b"\n")
