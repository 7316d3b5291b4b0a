"""Measurements that are interrupted."""

from __future__ import annotations

import pytest

from kraft.cli.perf.reports import Latest


def test_what_was_measured_is_printed_after_an_interrupt_which_goes_on() -> None:
    shown: list[int] = []
    printed: list[int] = []
    latest = Latest[int]()
    keep = latest.keeping(shown.append)
    keep(1)
    keep(2)
    with pytest.raises(KeyboardInterrupt), latest.printed(printed.append):
        raise KeyboardInterrupt
    assert (shown, printed) == ([1, 2], [2])


def test_nothing_is_printed_before_anything_was_measured_nor_twice_at_the_end() -> None:
    printed: list[int] = []
    with pytest.raises(KeyboardInterrupt), Latest[int]().printed(printed.append):
        raise KeyboardInterrupt
    latest = Latest[int]()
    with latest.printed(printed.append):
        latest.keeping(lambda _: None)(1)
    assert printed == []
