"""A login on its way is worth something in the browser that began it, and nowhere else."""

from __future__ import annotations

from typing import Final

import pytest

from kraft.console.oidc.begun import LIFE_S, NotBegunHere, begun, begun_of, challenge

KEY: Final = b"k" * 32
NOW_S: Final = 1_700_000_000
LOGIN: Final = begun("prod", "/clusters/prod/topics?q=a", "handle", NOW_S, "chance")


def test_a_state_comes_back_as_what_was_begun() -> None:
    assert begun_of(LOGIN.state(KEY, "browser"), KEY, "browser", NOW_S + LIFE_S) == LOGIN


@pytest.mark.parametrize(
    ("state", "key", "browser", "now_s"),
    [
        (LOGIN.state(KEY, "browser"), KEY, "another", NOW_S),
        (LOGIN.state(KEY, ""), KEY, "", NOW_S),
        (LOGIN.state(KEY, "browser"), b"of another process", "browser", NOW_S),
        (LOGIN.state(KEY, "browser"), KEY, "browser", NOW_S + LIFE_S + 1),
        (LOGIN.state(KEY, "browser"), KEY, "browser", NOW_S - 1),
        (LOGIN.state(KEY, "browser")[:-1] + "x", KEY, "browser", NOW_S),
        ("A" + LOGIN.state(KEY, "browser")[1:], KEY, "browser", NOW_S),
        ("", KEY, "browser", NOW_S),
        (".", KEY, "browser", NOW_S),
        ("\u00e9.x", KEY, "browser", NOW_S),
        ("x" * 100_000, KEY, "browser", NOW_S),
    ],
)
def test_any_other_state_is_of_nobody(state: str, key: bytes, browser: str, now_s: int) -> None:
    with pytest.raises(NotBegunHere):
        begun_of(state, key, browser, now_s)


def test_each_login_has_a_nonce_and_a_verifier_of_its_own() -> None:
    other = begun("prod", "/", "", NOW_S, "another chance")
    values = {
        each
        for login in (LOGIN, other)
        for browser in ("browser", "another")
        for each in (login.nonce(KEY, browser), login.verifier(KEY, browser), login.state(KEY, browser))
    }
    assert len(values) == 12
    # RFC 7636 asks for 43 to 128 characters.
    assert 43 <= len(LOGIN.verifier(KEY, "browser")) <= 128


def test_the_challenge_is_that_of_the_rfc() -> None:
    # RFC 7636, appendix B.
    expected = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
    assert challenge("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk") == expected


@pytest.mark.parametrize("after", ["https://evil.example/", "//evil.example", "/clusters/x" + "y" * 600, "/login"])
def test_a_login_leads_to_a_page_of_ours(after: str) -> None:
    assert begun("prod", after, "", NOW_S, "chance").after == "/"
