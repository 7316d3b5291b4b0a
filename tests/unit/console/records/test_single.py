"""One record: that it was not read is not taken for that it is not there."""

from __future__ import annotations

import pytest

from kraft.client import ErrorCode, Refusal
from kraft.console.records.raw import RawRecord
from kraft.console.records.reading import Limits
from kraft.console.records.single import item_at
from tests.unit.console.records.readers import FakeConsumer, log_of, reader_of

ONE = Limits(bytes_max=1, deadline_s=10.0)


def test_a_record_and_a_gap_that_compaction_left() -> None:
    consumer = FakeConsumer({0: log_of([3, 3], [0, 2])})
    found = item_at(reader_of(consumer, ONE), 0, 2)
    assert isinstance(found, RawRecord)
    assert (found.offset, found.value) == (2, b"2")
    assert item_at(reader_of(consumer, ONE), 0, 4) is None


@pytest.mark.parametrize(("silent", "now_s", "said"), [({0}, 0.0, "nothing came"), (set(), 11.0, "larger than can be")])
def test_what_was_not_read_may_be_there(silent: set[int], now_s: float, said: str) -> None:
    consumer = FakeConsumer({0: log_of([3], [0])})
    consumer.silent = frozenset(silent)
    with pytest.raises(Refusal, match=said) as refused:
        item_at(reader_of(consumer, ONE, clock=lambda: now_s), 0, 2)
    assert refused.value.error_code is ErrorCode.REQUEST_TIMED_OUT
