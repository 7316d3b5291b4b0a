"""Bad histories, at least two of each kind, that must be caught, and good ones that must pass."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.checkers import AnomalyKind, check
from chaos.checkers.observations import observe
from chaos.history import Operation, Poll
from tests.unit.chaos.history_building import KEY, HistoryBuilder, good_history

BAD: dict[str, tuple[AnomalyKind, HistoryBuilder]] = {}


def bad(kind: AnomalyKind, name: str) -> HistoryBuilder:
    BAD[name] = kind, (history := HistoryBuilder())
    return history


history = bad(AnomalyKind.INCONSISTENT_OFFSETS, "two acknowledgements name one offset")
history.sent((1, 0))
history.sent((2, 0), process="other")

history = bad(AnomalyKind.INCONSISTENT_OFFSETS, "two consumers read different values at one offset")
history.sent((1, 0))
history.send_unknown(2)
history.polled((0, 1))
history.polled((0, 2), process="other")

history = bad(AnomalyKind.INCONSISTENT_OFFSETS, "a new leader gave the offset to somebody else")
history.sent((1, 0), (2, 1))
history.send_unknown(3)
history.polled((0, 1), (1, 3))

history = bad(AnomalyKind.DUPLICATE, "a retry was stored twice")
history.sent((1, 0))
history.polled((0, 1), (1, 1))

history = bad(AnomalyKind.DUPLICATE, "a value moved from where it was acknowledged")
history.sent((1, 4))
history.polled((5, 1))

history = bad(AnomalyKind.DUPLICATE, "a value whose outcome was open came twice")
history.send_unknown(1)
history.polled((0, 1))
history.polled((7, 1), process="other")

history = bad(AnomalyKind.LOST_WRITE, "reading went past an acknowledged value")
history.sent((1, 0), (2, 1), (3, 2))
history.polled((0, 1))
history.assigned()
history.polled((2, 3))

history = bad(AnomalyKind.LOST_WRITE, "the first value is gone")
history.sent((1, 0))
history.sent((2, 1))
history.polled((1, 2))

history = bad(AnomalyKind.UNSEEN, "the last value is gone")
history.sent((1, 0), (2, 1))
history.polled((0, 1))

history = bad(AnomalyKind.UNSEEN, "nothing was ever read")
history.sent((1, 0))

history = bad(AnomalyKind.UNSEEN, "a duplicate that the broker could not place never showed")
history.sent((1, None))
history.sent((2, 3))
history.polled((3, 2))

history = bad(AnomalyKind.UNSEEN, "a part of a send was acknowledged, and that part is gone")
history.send_unknown(1, 2, acknowledged=(1,))

history = bad(AnomalyKind.ABORTED_READ, "a refused value was read")
history.send_failed(1)
history.polled((0, 1))

history = bad(AnomalyKind.ABORTED_READ, "a refused value was read before it was refused")
history.polled((0, 1))
history.send_failed(1)

history = bad(AnomalyKind.PHANTOM_READ, "a value that nobody sent")
history.polled((0, 1))

history = bad(AnomalyKind.PHANTOM_READ, "a value of another partition")
history.sent((1, 0), key="orders-1")
history.polled((0, 1), key="orders-1")
history.polled((0, 1))

history = bad(AnomalyKind.POLL_SKIP, "from one poll to the next an acknowledged offset is left out")
history.sent((1, 0), (2, 1), (3, 2))
history.polled((0, 1))
history.polled((2, 3))

history = bad(AnomalyKind.POLL_SKIP, "an offset is left out that somebody else read")
history.send_unknown(1, 2, 3)
history.polled((0, 1), (1, 2), (2, 3), process="other")
history.polled((0, 1))
history.polled((2, 3))

history = bad(AnomalyKind.INT_POLL_SKIP, "inside a poll an acknowledged offset is left out")
history.sent((1, 0), (2, 1), (3, 2))
history.polled((0, 1), (2, 3))

history = bad(AnomalyKind.INT_POLL_SKIP, "inside a poll half of a batch is left out")
history.sent((1, 0), (2, 1), (3, 2), (4, 3))
history.polled((0, 1), (3, 4))
history.polled((0, 1), (1, 2), (2, 3), (3, 4), process="other")

history = bad(AnomalyKind.NONMONOTONIC_POLL, "a poll returns what the last one returned")
history.sent((1, 0))
history.polled((0, 1))
history.polled((0, 1))

history = bad(AnomalyKind.NONMONOTONIC_POLL, "a poll goes back")
history.sent((1, 0), (2, 1))
history.polled((0, 1), (1, 2))
history.polled((0, 1))

history = bad(AnomalyKind.INT_NONMONOTONIC_POLL, "a poll holds an offset twice")
history.sent((1, 0))
history.polled((0, 1), (0, 1))

history = bad(AnomalyKind.INT_NONMONOTONIC_POLL, "a poll is in the wrong order")
history.sent((1, 0), (2, 1))
history.polled((1, 2), (0, 1))

history = bad(AnomalyKind.NONMONOTONIC_SEND, "a later send lies before an earlier one")
history.sent((1, 5))
history.sent((2, 4))

history = bad(AnomalyKind.NONMONOTONIC_SEND, "a later send lies inside of an earlier one")
history.sent((1, 0), (2, 9))
history.sent((3, 4))

history = bad(AnomalyKind.INT_NONMONOTONIC_SEND, "a send's values are in the wrong order")
history.sent((1, 1), (2, 0))

history = bad(AnomalyKind.INT_NONMONOTONIC_SEND, "a send's values are at one place")
history.sent((1, 1), (2, 1))


@pytest.mark.parametrize("name", BAD)
def test_a_bad_history_is_caught(name: str) -> None:
    kind, history = BAD[name]
    verdict = check(history.operations)

    assert kind in verdict.counts
    assert not verdict.is_clean


def test_every_kind_of_anomaly_has_two_bad_histories() -> None:
    kinds = [kind for kind, _ in BAD.values()]
    assert {kind: kinds.count(kind) >= 2 for kind in AnomalyKind} == dict.fromkeys(AnomalyKind, True)


@given(st.integers(min_value=0))
def test_a_log_that_keeps_its_promises_is_found_clean(seed: int) -> None:
    verdict = check(good_history(seed))
    assert verdict.anomalies == ()
    assert verdict.is_clean


@given(st.integers(min_value=0), st.data())
def test_an_acknowledged_value_that_disappears_is_always_missed(seed: int, data: st.DataObject) -> None:
    good = good_history(seed)
    acknowledged = acknowledged_in(good)
    if not acknowledged:
        return
    key, value = data.draw(st.sampled_from(acknowledged))
    verdict = check([without(operation, key, value) for operation in good])

    assert verdict.lost == 1
    assert not verdict.is_clean


def test_an_anomaly_names_what_shows_it() -> None:
    history = HistoryBuilder()
    history.sent((1, 0))
    history.polled((0, 1), (1, 1))
    history.drained()

    (anomaly,) = check(history.operations).anomalies
    assert anomaly.key == KEY
    assert str(anomaly) == "duplicate in orders-0: value 1 is at offsets 0 and 1 (operations 1, 3)"


def test_reading_from_the_beginning_again_is_no_anomaly_after_an_assignment() -> None:
    history = HistoryBuilder()
    history.sent((1, 0), (2, 1))
    history.polled((0, 1), (1, 2))
    history.assigned()
    history.polled((0, 1), (1, 2))
    history.drained()

    assert check(history.operations).is_clean


def test_an_unreported_offset_is_no_skip() -> None:
    history = HistoryBuilder()
    history.sent((1, 0), (2, 2))
    history.polled((0, 1), (2, 2))
    history.drained()

    assert check(history.operations).is_clean


def test_values_are_counted_by_what_is_known_of_them() -> None:
    history = HistoryBuilder()
    history.sent((1, 0), (2, 1))
    history.send_failed(3)
    history.send_unknown(4, 5, acknowledged=(4,))
    history.polled((0, 1), (1, 2), (2, 4), (3, 5))
    history.drained()

    verdict = check(history.operations)
    assert verdict.is_clean
    assert (verdict.acknowledged, verdict.failed, verdict.unknown, verdict.read) == (3, 1, 1, 4)


def test_a_history_without_its_last_reading_is_not_clean() -> None:
    history = HistoryBuilder()
    history.sent((1, 0))
    history.polled((0, 1))

    verdict = check(history.operations)
    assert verdict.anomalies == ()
    assert not verdict.is_clean


def test_the_time_grows_no_faster_than_the_history() -> None:
    def seconds(values: int) -> float:
        history = HistoryBuilder()
        for value in range(values):
            history.sent((value, value))
            history.polled((value, value))
        began_s = time.process_time()
        assert check(history.operations).anomalies == ()
        return time.process_time() - began_s

    # Quadratic work would take 64 times as long; the bound leaves room for a machine that is busy with other things.
    assert seconds(16_000) < 30 * max(seconds(2_000), 0.005)


def acknowledged_in(operations: list[Operation]) -> list[tuple[str, int]]:
    """Key and value of everything that a history acknowledged."""
    return [(name, value) for name, key in observe(operations).keys.items() for value in key.acknowledged]


def without(operation: Operation, key: str, value: int) -> Operation:
    """The same, as if nobody had read the value."""
    if not isinstance(operation.value, Poll):
        return operation
    reads = dict(operation.value.reads)
    if key in reads:
        reads[key] = tuple(read for read in reads[key] if read[1] != value)
    return replace(operation, value=Poll(reads=reads))
