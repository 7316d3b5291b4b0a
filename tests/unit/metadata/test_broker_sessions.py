from __future__ import annotations

import pytest

from kraft.metadata.broker_sessions import BrokerSessions
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


def test_an_expired_broker_is_reported_until_its_session_is_ended() -> None:
    sessions = BrokerSessions(timeout_ms=100)
    sessions.touch(ONE, FIRST_LIFE, now_ms=0)
    assert sessions.expired(100) == sessions.expired(200) == [ONE]
    sessions.end(ONE)
    sessions.end(ONE)
    assert sessions.expired(300) == []


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


def test_a_new_office_does_not_count_the_time_between_two_of_them() -> None:
    sessions = BrokerSessions(timeout_ms=3_000)
    sessions.activate(cluster(1), now_ms=0)
    sessions.tick(100)
    sessions.activate(cluster(1), now_ms=90_000)
    sessions.tick(90_100)
    assert sessions.expired(92_999) == []
    assert sessions.expired(93_000) == [ONE]
