"""Logins at a provider that take too long: nothing of them stays open."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, cast

import pytest

from kraft.console.oidc import logins as module
from kraft.console.oidc.logins import OidcLogins
from kraft.console.oidc.provider import Away

_DEADLINE_S = 10


def test_a_client_that_is_opened_too_late_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WAIT_S_MAX", 0.01)
    logins = OidcLogins(cast(Any, None), cast(Any, None))
    may_open, closed = threading.Event(), threading.Event()

    def opened() -> str:
        may_open.wait(_DEADLINE_S)
        return "a client"

    def given_back(client: str) -> None:
        assert client == "a client"
        closed.set()

    async def log_in() -> None:
        with pytest.raises(Away):
            await logins._waited(opened, given_back)

    asyncio.run(log_in())
    assert not closed.is_set()
    may_open.set()
    assert closed.wait(_DEADLINE_S)


def test_a_login_in_time_is_not_given_back() -> None:
    logins = OidcLogins(cast(Any, None), cast(Any, None))
    given_back: list[str] = []
    assert asyncio.run(logins._waited(lambda: "a client", given_back.append)) == "a client"
    assert given_back == []
