from __future__ import annotations

import pytest

from kraft.metadata.broker_decisions import fence_broker
from kraft.metadata.broker_sessions import PAUSED_AFTER_MS, BrokerSessions
from kraft.model.ids import BrokerEpoch, BrokerId
from tests.support.cluster_images import cluster

ONE, TWO = BrokerId(1), BrokerId(2)
FIRST_LIFE, SECOND_LIFE = BrokerEpoch(1), BrokerEpoch(2)


def test_a_session_lasts_its_timeout_and_not_a_millisecond_longer() -> None:
    sessions = BrokerSessions(timeout_ms=100)
    sessions.touch(ONE, FIRST_LIFE, now_ms=1_000)
    assert (sessions.is_alive(ONE, 1_099), sessions.expired(1_099)) == (True, [])
    assert (sessions.is_alive(ONE, 1_100), sessions.expired(1_100)) == (False, [ONE])


def test_a_heartbeat_renews_the_session() -> None:
    sessions = BrokerSessions(timeout_ms=100)
    sessions.touch(ONE, FIRST_LIFE, now_ms=0)
    sessions.touch(TWO, FIRST_LIFE, now_ms=0)
    sessions.touch(ONE, FIRST_LIFE, now_ms=60)
    assert sessions.expired(100) == [TWO]
    assert sessions.next_deadline_ms() == 100


def test_an_earlier_life_of_a_broker_does_not_keep_the_session_alive() -> None:
    sessions = BrokerSessions(timeout_ms=100)
    sessions.touch(ONE, SECOND_LIFE, now_ms=0)
    sessions.touch(ONE, FIRST_LIFE, now_ms=90)
    assert sessions.expired(100) == [ONE]


def test_who_becomes_active_grants_every_unfenced_broker_a_full_session() -> None:
    image = cluster(1, 2, 3)
    image = image.replay(fence_broker(image, TWO, SECOND_LIFE).records)
    sessions = BrokerSessions(timeout_ms=100)
    sessions.touch(BrokerId(9), FIRST_LIFE, now_ms=0)
    sessions.activate(image, now_ms=1_000)
    assert [sessions.is_alive(BrokerId(broker_id), 1_099) for broker_id in (1, 2, 3, 9)] == [True, False, True, False]
    assert sessions.expired(1_100) == [1, 3]


def test_an_expired_broker_is_reported_until_its_session_is_ended() -> None:
    sessions = BrokerSessions(timeout_ms=100)
    sessions.touch(ONE, FIRST_LIFE, now_ms=0)
    assert sessions.expired(100) == sessions.expired(200) == [ONE]
    sessions.end(ONE)
    sessions.end(ONE)
    assert sessions.expired(300) == []
    assert sessions.next_deadline_ms() is None


def test_a_session_without_length_is_refused() -> None:
    with pytest.raises(ValueError, match="0 ms"):
        BrokerSessions(timeout_ms=0)


def test_the_time_in_which_the_controller_itself_was_stopped_is_nobodys_silence() -> None:
    sessions = BrokerSessions(timeout_ms=3_000)
    sessions.activate(cluster(1, 2), now_ms=0)
    for now_ms in range(0, 2_001, 100):
        sessions.tick(now_ms)
    sessions.tick(62_000)
    assert sessions.expired(62_000) == []
    sessions.touch(ONE, FIRST_LIFE, 62_050)
    for now_ms in range(62_100, 63_000, 100):
        sessions.tick(now_ms)
    assert sessions.expired(62_999) == []
    assert sessions.expired(63_000) == [TWO], "it had a second left, and let it pass"


def test_a_controller_that_looks_a_little_late_counts_the_time_as_silence() -> None:
    sessions = BrokerSessions(timeout_ms=3_000)
    sessions.activate(cluster(1), now_ms=0)
    for now_ms in range(0, 3_001, PAUSED_AFTER_MS):
        sessions.tick(now_ms)
    assert sessions.expired(3_000) == [ONE]


def test_a_new_office_does_not_count_the_time_between_two_of_them() -> None:
    sessions = BrokerSessions(timeout_ms=3_000)
    sessions.activate(cluster(1), now_ms=0)
    sessions.tick(100)
    sessions.activate(cluster(1), now_ms=90_000)
    sessions.tick(90_100)
    assert sessions.expired(92_999) == []
    assert sessions.expired(93_000) == [ONE]
