"""History of a group from samples: lines of its topics, and what they say where coordinators say nothing."""

from __future__ import annotations

from kraft.client import TopicPartition
from kraft.coordinator.lag.states import LagState
from kraft.coordinator.lag.tracker import Moment
from kraft.health.group_history import POINTS_MAX, TOPICS_MAX, GroupHistory

ORDERS = [TopicPartition("orders", number) for number in range(2)]


def at(second: int) -> Moment:
    return Moment(1_000_000_000_000 + second * 1_000, second * 1_000)


def test_a_line_has_the_sums_of_its_topic_and_a_gap_where_an_end_is_not_known() -> None:
    history = GroupHistory()
    committed = {ORDERS[0]: 5, ORDERS[1]: 2}
    history.add(at(0), committed, {ORDERS[0]: 9, ORDERS[1]: 2}, judges=False)
    history.add(at(10), committed, {ORDERS[0]: 9}, judges=False)
    history.add(at(20), {**committed, TopicPartition("users", 0): 1}, {ORDERS[0]: 9, ORDERS[1]: 1}, judges=False)
    orders, users = history.series().topics
    assert history.series().times_ms == [at(0).wall_ms, at(10).wall_ms, at(20).wall_ms]
    assert (orders.committed, orders.end, orders.lag) == ([7, None, 7], [11, None, 10], [4, None, 4])
    assert users.lag == [None, None, None]


def test_a_history_is_bounded() -> None:
    history = GroupHistory()
    places = {TopicPartition(f"t-{number:02}", 0): 1 for number in range(TOPICS_MAX + 3)}
    for second in range(POINTS_MAX + 5):
        history.add(at(second), places, dict.fromkeys(places, 2), judges=False)
    series = history.series()
    assert (len(series.times_ms), len(series.topics), series.left_out) == (POINTS_MAX, TOPICS_MAX, 3)
    assert series.times_ms[0] == at(5).wall_ms
    assert {len(each.lag) for each in series.topics} == {POINTS_MAX}
    assert history.places == 0


def test_samples_say_how_old_the_first_record_is_that_waits() -> None:
    history, place = GroupHistory(), ORDERS[0]
    assert history.judged(place, 5, at(0)) is None
    history.add(at(0), {place: 5}, {place: 5}, judges=True)
    history.add(at(10), {place: 5}, {place: 15}, judges=True)
    judged = history.judged(place, 5, at(30))
    assert judged is not None
    assert (judged.behind.ms, judged.behind.is_at_least, judged.committed_ms) == (30_000, False, None)
    older = history.judged(place, 3, at(30))
    assert older is not None
    assert older.behind.is_at_least


def test_a_group_that_stopped_and_one_that_went_back_are_told_apart() -> None:
    stopped, back = GroupHistory(), GroupHistory()
    place = ORDERS[0]
    for step in range(4):
        stopped.add(at(10 * step), {place: 10 * step}, {place: 100}, judges=True)
        back.add(at(10 * step), {place: 30 - 10 * step}, {place: 100}, judges=True)
    found, other = stopped.worst(at(300)), back.worst(at(31))
    assert found is not None
    assert other is not None
    assert (found.state, other.state) == (LagState.ERR, LagState.ERR)
    single = stopped.judged(place, 30, at(300))
    assert single is not None
    assert (single.state, single.committed_ms) == (LagState.STOP, at(30).wall_ms)
    rewound = back.judged(place, 0, at(31))
    assert rewound is not None
    assert rewound.state is LagState.REWIND
    # A partition whose offset is gone is forgotten.
    stopped.add(at(310), {}, {}, judges=True)
    assert (stopped.places, stopped.worst(at(310))) == (0, None)
