from __future__ import annotations

import pytest

from kraft.console import login_limits as module
from kraft.console.login_limits import OF_ADDRESS_MAX, OF_USER_EVERYWHERE_MAX, OF_USER_MAX, WITHIN_MS, LoginLimits


def test_who_guesses_the_password_of_a_user_waits_from_wherever() -> None:
    limits = LoginLimits()
    most = OF_USER_EVERYWHERE_MAX
    waits = [limits.wait_ms(f"10.0.0.{number}", "prod", "alice", number) for number in range(most + 1)]
    assert waits == [0] * most + [WITHIN_MS - most]
    assert limits.wait_ms("10.0.0.1", "prod", "bob", 10) == 0
    assert limits.wait_ms("10.0.0.1", "test", "alice", 10) == 0
    assert limits.wait_ms("10.0.0.1", "prod", "alice", WITHIN_MS) == 0


def test_wrong_passwords_from_elsewhere_let_nobody_wait() -> None:
    limits = LoginLimits()
    waits = [limits.wait_ms("10.0.0.1", "prod", "alice", 0) for _ in range(OF_USER_MAX + 1)]
    assert waits == [0] * OF_USER_MAX + [WITHIN_MS]
    assert limits.wait_ms("10.0.0.2", "prod", "alice", 0) == 0


def test_a_user_logs_in_where_the_user_has_logged_in_before_whoever_guesses_elsewhere() -> None:
    limits = LoginLimits()
    assert limits.wait_ms("10.0.1.1", "prod", "alice", 0) == 0
    limits.succeeded("10.0.1.1", "prod", "alice")
    for number in range(OF_USER_EVERYWHERE_MAX):
        assert limits.wait_ms(f"10.0.0.{number}", "prod", "alice", 0) == 0
    assert limits.wait_ms("10.0.0.99", "prod", "alice", 0) == WITHIN_MS
    # Where the user is known, five attempts as ever, of which right ones take none of the strangers' back.
    waits = [limits.wait_ms("10.0.1.1", "prod", "alice", 0) for _ in range(OF_USER_MAX + 1)]
    assert waits == [0] * OF_USER_MAX + [WITHIN_MS]
    limits.succeeded("10.0.1.1", "prod", "alice")
    assert limits.wait_ms("10.0.0.99", "prod", "alice", 0) == WITHIN_MS


def test_who_guesses_many_users_waits() -> None:
    limits = LoginLimits()
    waits = [limits.wait_ms("10.0.0.1", "prod", f"user-{number}", 0) for number in range(OF_ADDRESS_MAX + 1)]
    assert waits == [0] * OF_ADDRESS_MAX + [WITHIN_MS]


def test_who_knows_the_password_is_not_limited() -> None:
    limits = LoginLimits()
    for _ in range(OF_ADDRESS_MAX + 1):
        assert limits.wait_ms("10.0.0.1", "prod", "alice", 0) == 0
        limits.succeeded("10.0.0.1", "prod", "alice")


def test_only_so_much_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REMEMBERED_MAX", 4)
    limits = LoginLimits()
    for number in range(10):
        limits.wait_ms(f"10.0.0.{number}", "prod", f"user-{number}", 0)
    assert len(limits._attempts) == 4


def test_where_somebody_else_asks_for_the_password_only_the_address_counts() -> None:
    limits = LoginLimits()
    waits = [limits.wait_ms("10.0.0.1", "prod", "", 0) for _ in range(OF_ADDRESS_MAX + 1)]
    assert waits == [0] * OF_ADDRESS_MAX + [WITHIN_MS]
    assert limits.wait_ms("10.0.0.2", "prod", "", 0) == 0
