from __future__ import annotations

from ipaddress import ip_network

import pytest

from kraft.console.protection import (
    HEADERS,
    client_address,
    cookie_name,
    is_known_host,
    is_same_origin,
    safe_next,
    signature,
)

OWN = frozenset({"http://localhost:8080"})


def test_only_own_scripts_run_and_nothing_is_loaded_from_elsewhere() -> None:
    policy = HEADERS["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "script-src 'self';" in policy
    assert not any(each in policy for each in ("unsafe", "http", "*", "data:"))


def test_nothing_is_kept_framed_or_taken_for_another_type() -> None:
    assert {
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
        "Referrer-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Cache-Control": "no-store",
    }.items() <= HEADERS.items()


@pytest.mark.parametrize(
    ("host", "known"),
    [("localhost:8080", True), ("LOCALHOST:8080", True), ("evil.example", False), ("localhost", False), (None, False)],
)
def test_a_host_is_known_by_the_file_only(host: str | None, known: bool) -> None:
    assert is_known_host(host, {"localhost:8080"}) is known


@pytest.mark.parametrize(
    ("origin", "fetch_site", "same"),
    [
        ("http://localhost:8080", "same-origin", True),
        (None, None, True),
        ("http://localhost:8081", None, False),
        ("https://localhost:8080", None, False),
        ("null", None, False),
        ("http://localhost:8080", "cross-site", False),
        (None, "same-site", False),
    ],
)
def test_a_form_of_another_site_is_not_ours(origin: str | None, fetch_site: str | None, same: bool) -> None:
    assert is_same_origin(origin, fetch_site, OWN) is same


@pytest.mark.parametrize(
    ("given", "where"),
    [
        ("/clusters/prod/topics?q=a&page=2", "/clusters/prod/topics?q=a&page=2"),
        ("", "/"),
        ("https://evil.example/", "/"),
        ("//evil.example/", "/"),
        ("/clusters///evil.example", "/"),
        ("/clusters/\\evil.example", "/"),
        ("/clusters/a\r\nSet-Cookie: a=b", "/"),
        ("/logout", "/"),
    ],
)
def test_a_login_leads_to_our_own_pages_only(given: str, where: str) -> None:
    assert safe_next(given) == where


def test_tokens_of_forms_and_names_of_cookies() -> None:
    given = [(b"key", "form", "a"), (b"key", "form", "b"), (b"other", "form", "a"), (b"key", "said", "a")]
    assert len({signature(*each) for each in given}) == len(given)
    assert cookie_name("session", is_secure=True) == "__Host-kraft-session"
    assert cookie_name("session", is_secure=False) == "kraft-session"


@pytest.mark.parametrize(
    ("peer", "forwarded", "address"),
    [
        ("10.0.0.1", [], "10.0.0.1"),
        ("10.0.0.1", ["203.0.113.7"], "203.0.113.7"),
        # What stands before was written by whoever asks.
        ("10.0.0.1", ["6.6.6.6, 203.0.113.7"], "203.0.113.7"),
        ("10.0.0.1", ["6.6.6.6", "203.0.113.7, 10.0.0.2"], "203.0.113.7"),
        ("203.0.113.9", ["6.6.6.6"], "203.0.113.9"),
        ("10.0.0.1", ["unknown"], "10.0.0.1"),
        ("10.0.0.1", ["6.6.6.6, <script>"], "10.0.0.1"),
        ("2001:db8:1:2:3:4:5:6", [], "2001:db8:1:2::/64"),
        ("?", ["6.6.6.6"], "?"),
    ],
)
def test_only_proxies_that_are_trusted_say_where_somebody_is(peer: str, forwarded: list[str], address: str) -> None:
    assert client_address(peer, forwarded, [ip_network("10.0.0.0/24")]) == address
