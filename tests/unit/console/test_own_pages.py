"""Pages that are of no cluster: what strangers named is text there, too."""

from __future__ import annotations

import pytest

from kraft.console.own_sessions import SessionRow
from tests.support.console_pages import EVIL, assert_shown_as_text, html_of

ROW = SessionRow(handle=EVIL, is_this=False, logins=[EVIL], begun=EVIL, idle_s=90, address=EVIL, agent=EVIL)


def test_sessions_are_shown_as_text() -> None:
    assert_shown_as_text("sessions.html", None, rows=[ROW])
    assert "1 minute ago" in html_of("sessions.html", None, rows=[ROW])


@pytest.mark.parametrize("provider", ["", EVIL])
def test_a_login_is_shown_as_text(provider: str) -> None:
    values = {"for_cluster": EVIL, "next": EVIL, "provider": provider}
    assert_shown_as_text("login.html", None, **values)
    assert ('type="password"' in html_of("login.html", None, **values)) is not bool(provider)


def test_what_leads_on_after_a_login_is_shown_as_text() -> None:
    assert_shown_as_text("logged_in.html", None, where=EVIL)
