from __future__ import annotations

import itertools
from typing import Any

import pytest

from kraft.console import sessions as module
from kraft.console.sessions import Login, Sessions, TooManySessions

ALICE: Any = Login(user="alice", client=None)  # type: ignore[arg-type]  # No test here asks a cluster.
BOB: Any = Login(user="bob", client=None)  # type: ignore[arg-type]  # Likewise.


@pytest.fixture(name="sessions")
def _sessions() -> Sessions:
    numbers = itertools.count(1)
    return Sessions(idle_ms=100, lifetime_ms=250, new_secret=lambda: f"secret-{next(numbers)}")


def test_a_session_ends_when_it_is_idle(sessions: Sessions) -> None:
    session, _ = sessions.log_in(None, "prod", ALICE, 0)
    assert sessions.find(session.session_id, 99) is session
    assert sessions.find(session.session_id, 198) is session
    assert sessions.find(session.session_id, 298) is None


def test_a_session_that_is_used_ends_as_well(sessions: Sessions) -> None:
    session, _ = sessions.log_in(None, "prod", ALICE, 0)
    assert all(sessions.find(session.session_id, now_ms) for now_ms in range(0, 250, 50))
    assert sessions.find(session.session_id, 250) is None
    assert sessions.end_old(250) == [ALICE]
    assert len(sessions) == 0


def test_a_login_gives_a_new_id_and_keeps_the_other_clusters(sessions: Sessions) -> None:
    before, _ = sessions.log_in(None, "prod", ALICE, 0)
    after, ended = sessions.log_in(before, "test", BOB, 50)
    assert ended == []
    assert after.session_id != before.session_id
    assert after.csrf_token != before.csrf_token
    assert sessions.find(before.session_id, 50) is None
    assert after.logins == {"prod": ALICE, "test": BOB}
    # Logging in again and again does not prolong it.
    assert after.begun_ms == 0
    assert sessions.log_in(after, "prod", BOB, 60)[1] == [ALICE]


def test_who_logged_out_is_not_known_any_more(sessions: Sessions) -> None:
    session, _ = sessions.log_in(None, "prod", ALICE, 0)
    assert sessions.log_out(session) == [ALICE]
    assert sessions.find(session.session_id, 1) is None


def test_there_are_only_so_many(sessions: Sessions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SESSIONS_MAX", 2)
    first, _ = sessions.log_in(None, "prod", ALICE, 0)
    sessions.log_in(None, "prod", BOB, 0)
    with pytest.raises(TooManySessions):
        sessions.log_in(None, "prod", BOB, 0)
    sessions.log_in(first, "test", ALICE, 0)


@pytest.mark.parametrize("session_id", [None, "", "secret-99"])
def test_an_id_that_was_never_given_is_nobody(sessions: Sessions, session_id: str | None) -> None:
    assert sessions.find(session_id, 0) is None


def test_a_login_that_is_over_leaves_the_session_and_the_other_clusters(sessions: Sessions) -> None:
    before, _ = sessions.log_in(None, "prod", ALICE, 0)
    session, _ = sessions.log_in(before, "test", BOB, 0)
    other: Any = object()
    # Somebody has logged in anew meanwhile: this login is another one.
    assert sessions.log_out_of(session, "prod", other) == []
    assert sessions.log_out_of(session, "prod", ALICE.client) == [ALICE]
    assert sessions.log_out_of(session, "prod", ALICE.client) == []
    assert session.logins == {"test": BOB}
    assert sessions.find(session.session_id, 1) is session


def test_sessions_of_the_same_user_at_the_same_cluster_are_known_to_each_other(sessions: Sessions) -> None:
    mine, _ = sessions.log_in(None, "prod", ALICE, 0)
    mine, _ = sessions.log_in(mine, "test", BOB, 0)
    other, _ = sessions.log_in(None, "prod", ALICE, 60)
    sessions.log_in(None, "prod", BOB, 60)
    sessions.log_in(None, "test", ALICE, 60)
    assert sessions.of_same_users(mine, 90) == [mine, other]
    assert sessions.shared_logins(mine, other) == ["prod"]
    assert sessions.of_same_users(other, 110) == [other]


def test_a_session_ends_with_its_last_login(sessions: Sessions) -> None:
    first, _ = sessions.log_in(None, "prod", ALICE, 0)
    session, _ = sessions.log_in(first, "test", BOB, 0)
    assert sessions.by_handle(session.handle, 50) is session
    assert sessions.by_handle(first.handle, 50) is None
    assert sessions.end_login(session, "prod") is ALICE
    assert sessions.end_login(session, "prod") is None
    assert sessions.is_open(session.session_id, 50)
    assert sessions.end_login(session, "test") is BOB
    assert not sessions.is_open(session.session_id, 50)
    assert sessions.by_handle(session.handle, 50) is None


def test_a_user_has_so_many_sessions_and_loses_the_login_that_was_not_used_for_longest(
    sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SESSIONS_OF_A_USER_MAX", 2)
    first, _ = sessions.log_in(None, "prod", ALICE, 0)
    second, _ = sessions.log_in(None, "prod", ALICE, 1)
    sessions.log_in(None, "prod", BOB, 2)
    first, ended = sessions.log_in(first, "test", ALICE, 3)
    assert ended == []
    assert sessions.log_in(None, "prod", ALICE, 4)[1] == [ALICE]
    assert not sessions.is_open(second.session_id, 4)
    # What a session replaces takes no further place.
    assert sessions.log_in(first, "prod", ALICE, 5)[1] == [ALICE]
    assert len(sessions) == 3


def test_two_people_of_one_name_are_two(sessions: Sessions) -> None:
    """Names of a provider's users may be of several; subjects are of one."""
    one, other = (Login(user="Alice", client=ALICE.client, claims={"sub": each}) for each in "ab")
    mine, _ = sessions.log_in(None, "prod", one, 0)
    sessions.log_in(None, "prod", other, 0)
    assert sessions.of_same_users(mine, 0) == [mine]


def test_a_handle_of_an_idle_session_is_nobodys(sessions: Sessions) -> None:
    session, _ = sessions.log_in(None, "prod", ALICE, 0)
    assert sessions.by_handle(session.handle, 99) is session
    assert sessions.by_handle(session.handle, 100) is None
