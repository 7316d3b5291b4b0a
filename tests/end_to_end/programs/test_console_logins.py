"""Logins at an OpenID provider, sessions, and forms that others send: a real provider, console and cluster."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from kraft.client import Admin
from kraft.console.connections import OF_ADDRESS_MAX
from kraft.console.oidc.begun import challenge
from kraft.console.oidc.provider import Away, Provider, Refused, Tokens
from kraft.console.oidc.settings import OidcSettings
from kraft.console.routes import CHANGES
from kraft.model.access import Operation
from kraft.model.password import Password
from tests.support.acl_entries import entry
from tests.support.console_browser import Answer, Browser, console, token_in
from tests.support.kafka.access_rules import AUTHORIZED
from tests.support.kafka.login_cluster import login_cluster
from tests.support.openid_provider import CLIENT, CLIENT_SECRET, OpenIdProvider, openid_provider, query_of
from tests.support.token_issuer import AUDIENCE
from tests.support.waiting import until

TOPIC: Final = "orders"
USER: Final = "alice"
"""Whom the provider logs in, unless it is told otherwise."""

PASSWORD: Final = "a password"


@dataclass(frozen=True)
class Place:
    provider: OpenIdProvider
    port: int
    servers: str
    """Of the listener that asks for no login."""

    log: Path

    def browser(self) -> Browser:
        return Browser(self.port)


@pytest.fixture(name="place", scope="module")
def _place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with openid_provider(tmp_path_factory.mktemp("provider")) as provider:
        settings = {
            **AUTHORIZED,
            "sasl.enabled.mechanisms": "OAUTHBEARER,SCRAM-SHA-512",
            "sasl.oauthbearer.jwks.endpoint.url": provider.keys.as_uri(),
            "sasl.oauthbearer.expected.issuer": provider.url,
            "sasl.oauthbearer.expected.audience": AUDIENCE,
            # A token of two seconds is to end after two.
            "sasl.oauthbearer.clock.skew.seconds": "0",
        }
        with login_cluster(tmp_path_factory.mktemp("cluster"), 1, **settings) as cluster:
            cluster.set_password("bob", PASSWORD, "SCRAM-SHA-512")
            with Admin(cluster.bootstrap_servers) as admin:
                admin.create_topic(TOPIC, 1, 1)
                admin.create_topic("hidden", 1, 1)
                operations = (Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS)
                admin.create_acls([entry(TOPIC, each, principal=f"User:{USER}") for each in operations])
            directory = tmp_path_factory.mktemp("console")
            with console(directory, _file(provider, cluster.kafka_bootstrap_servers)) as port:
                yield Place(provider, port, cluster.bootstrap_servers, directory / "console.log")


def _file(provider: OpenIdProvider, servers: str) -> dict[str, str]:
    of_both = {"bootstrap.servers": servers, "wire.protocol": "kafka", "security.protocol": "SASL_PLAINTEXT"}
    prod = {
        **of_both,
        "sasl.mechanism": "OAUTHBEARER",
        "oidc.issuer": provider.url,
        "oidc.client.id": CLIENT,
        "oidc.client.secret": CLIENT_SECRET,
    }
    scram = {**of_both, "sasl.mechanism": "SCRAM-SHA-512"}
    return {
        "clusters": "prod,scram",
        "trusted.proxies": "127.0.0.1",
        **{f"cluster.prod.{key}": value for key, value in prod.items()},
        **{f"cluster.scram.{key}": value for key, value in scram.items()},
    }


def answer_of(place: Place, browser: Browser, after: str = "") -> str:
    """Go to the provider and log in there; return the path of the console that its answer leads to."""
    begun = browser.get(f"/login/oidc/prod?next={after}")
    assert begun.status == 303, begun.text
    back = place.provider.visit(begun.headers["location"])
    origin = f"http://localhost:{place.port}"
    assert back.startswith(f"{origin}/login/oidc/prod/callback?")
    return back.removeprefix(origin)


def log_in(place: Place, browser: Browser, after: str = "") -> Answer:
    return browser.get(answer_of(place, browser, after))


@pytest.fixture(autouse=True)
def _well_behaved(place: Place) -> None:
    place.provider.told()


# --- logging in --------------------------------------------------------------------------------------------------


def test_the_brokers_see_whoever_the_provider_logged_in(place: Place) -> None:
    browser = place.browser()
    form = browser.get("/clusters/prod/topics?q=o")
    form = browser.get(form.headers["location"])
    assert 'type="password"' not in form.text
    link = re.search(r'href="(/login/oidc/prod\?[^"]+)"', form.text)
    assert link is not None, form.text
    answer = log_in(place, browser, "/clusters/prod/topics?q=o".replace("?", "%3F").replace("=", "%3D"))
    assert answer.status == 200
    assert 'content="0; url=/clusters/prod/topics?q=o"' in answer.text
    assert all(each in answer.headers["set-cookie"].lower() for each in ("httponly", "samesite=strict"))
    seen = json.loads(browser.get("/api/clusters/prod/topics").text)["topics"]["value"]["rows"]
    assert [each["topic"] for each in seen] == [TOPIC]
    assert f">{USER}</span>" in browser.get("/clusters/prod/topics").text
    assert browser.get("/clusters/scram/topics").status == 303


def test_a_second_cluster_joins_the_session(place: Place) -> None:
    browser = place.browser()
    assert browser.log_in("scram", "bob", PASSWORD).status == 303
    session = browser.cookies["kraft-session"]
    path = answer_of(place, browser)
    # As the browser comes from another site, it does not show the strict cookie.
    del browser.cookies["kraft-session"]
    assert browser.get(path).status == 200
    assert browser.get("/clusters/scram/topics").status == browser.get("/clusters/prod/topics").status == 200
    # Neither the id of before, nor the answer of before is worth anything now.
    assert Browser(place.port, {"kraft-session": session}).get("/clusters/scram/topics").status == 303
    assert browser.get(path).status == 403


def test_an_answer_is_worth_nothing_in_another_browser_or_login(place: Place) -> None:
    victim, thief = place.browser(), place.browser()
    stolen = answer_of(place, victim)
    assert log_in(place, thief).status == 200
    path = answer_of(place, thief)
    assert thief.get(stolen).status == 403
    assert place.browser().get(stolen).status == 403
    # Somebody else's code with a state of one's own: PKCE's verifier does not fit.
    injected = path.replace(query_of(path)["code"], query_of(stolen)["code"])
    refused = thief.get(injected)
    assert (refused.status, "invalid_grant" in refused.text) == (401, True)
    for changed in (path.replace("iss=", "x="), path.replace("state=", "state=x"), path.replace("code=", "x=")):
        assert answer_status(place, changed) in (401, 403)
    assert thief.get("/login/oidc/scram").status == 404


def answer_status(place: Place, path: str) -> int:
    """Return the status of an answer that was changed on its way, in the browser of a login that has begun."""
    browser = place.browser()
    fresh = query_of(answer_of(place, browser))
    changed = path
    for name, value in query_of(path).items():
        if name in fresh:
            changed = changed.replace(f"{name}={value}", f"{name}={fresh[name]}")
    return browser.get(changed).status


def test_what_the_provider_refuses_is_said_as_text(place: Place) -> None:
    place.provider.told(error="access_denied")
    answer = log_in(place, place.browser())
    assert (answer.status, "access_denied: &lt;script&gt;" in answer.text) == (401, True)


@pytest.mark.parametrize(
    ("claims", "said"),
    [
        ({"nonce": "another"}, "its nonce differs"),
        ({"aud": "another"}, "claim aud"),
        ({"aud": [CLIENT, "another"]}, "azp differs"),
        ({"azp": "another"}, "azp differs"),
        ({"iss": "https://evil.example"}, "claim iss"),
        ({"exp": 1}, "expired"),
        ({"sub": None}, "claim sub is no user"),
    ],
)
def test_an_id_token_of_another_login_is_refused(place: Place, claims: dict[str, Any], said: str) -> None:
    provider = provider_of(place)
    place.provider.told(claims=claims)
    with pytest.raises(Refused, match=said):
        exchanged(place, provider)


def provider_of(place: Place) -> Provider:
    settings = OidcSettings(issuer=place.provider.url, client_id=CLIENT, client_secret=Password(CLIENT_SECRET))
    return Provider(settings, "http://localhost:1/callback")


def exchanged(place: Place, provider: Provider) -> Tokens:
    verifier = "v" * 43
    back = place.provider.visit(provider.authorization_url("state", "nonce", challenge(verifier)))
    tokens, identity = provider.exchange(query_of(back)["code"], verifier, "nonce")
    assert (identity.user, identity.claims["roles"]) == (USER, ["viewer"])
    return tokens


@pytest.mark.parametrize("name", ["authorization_endpoint", "token_endpoint", "jwks_uri"])
def test_no_address_is_asked_that_is_not_https_and_no_redirection_followed(place: Place, name: str) -> None:
    place.provider.told(document={name: "http://169.254.169.254/"})
    with pytest.raises(Away, match=f"{name} that is not https"):
        exchanged(place, provider_of(place))
    place.provider.told(document={"issuer": "https://evil.example"})
    with pytest.raises(Away, match="another issuer"):
        exchanged(place, provider_of(place))
    with closing(socket.create_server(("127.0.0.1", 0))) as elsewhere:
        elsewhere.settimeout(0.1)
        place.provider.told(redirects_tokens_to=f"http://localhost:{elsewhere.getsockname()[1]}/")
        with pytest.raises(Away, match="the server answers 307"):
            exchanged(place, provider_of(place))
        with pytest.raises(TimeoutError):
            elsewhere.accept()


# --- tokens that expire ------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_tokens_are_renewed_and_a_login_ends_with_a_sentence_when_they_are_not(place: Place) -> None:
    place.provider.told(lifetime_s=2)
    browser = place.browser()
    assert log_in(place, browser).status == 200
    token = token_in(browser.get("/clusters/prod/topics").text)
    before = place.provider.counts()["refresh"]
    until_s = time.monotonic() + 4
    while time.monotonic() < until_s:
        topics = json.loads(browser.get("/api/clusters/prod/topics").text)["topics"]
        assert topics["problem"] == "", topics
    assert place.provider.counts()["refresh"] >= before + 2
    place.provider.told(lifetime_s=2, refuses_refresh=True)
    until(lambda: browser.get("/clusters/prod/topics").status == 303, "the login has ended", 10)
    form = browser.get("/login?cluster=prod")
    assert "does not renew it (invalid_grant). Log in again." in form.text
    assert browser.get("/clusters/prod/topics").status == 303
    # Whoever was typing is told that nothing came of it, and led back.
    lost = browser.post("/clusters/prod/topics/orders/delete", {"token": token}) if CHANGES else None
    if lost is not None and lost.status == 303:
        assert "Nothing was changed" in browser.get(lost.headers["location"]).text


# --- sessions ----------------------------------------------------------------------------------------------------


def test_a_stolen_session_is_seen_and_ended(place: Place) -> None:
    mine, stranger = place.browser(), place.browser()
    assert log_in(place, mine).status == 200
    assert stranger.log_in("scram", "bob", PASSWORD).status == 303
    thief = place.browser()
    path = answer_of(place, thief)
    agent = "<script>alert(1)</script>"
    assert thief.get(path, **{"User-Agent": agent, "X-Forwarded-For": "6.6.6.6, 203.0.113.7"}).status == 200
    page = mine.get("/sessions")
    assert "203.0.113.7" in page.text
    assert "6.6.6.6" not in page.text
    assert "&lt;script&gt;" in page.text
    of_thief = page.text.partition("203.0.113.7")[2]
    handle = re.search(r'name="handle" value="([^"]+)"', of_thief)
    assert handle is not None, page.text
    fields = {"token": token_in(page.text), "handle": handle[1]}
    # A stranger ends nobody else's.
    assert stranger.post("/sessions/end", {**fields, "token": token_in(stranger.get("/sessions").text)}).status == 303
    assert thief.get("/clusters/prod/topics").status == 200
    assert mine.post("/sessions/end", fields, Origin="http://evil.example").status == 403
    assert mine.post("/sessions/end", fields).status == 303
    assert thief.get("/clusters/prod/topics").status == 303
    assert "Ended 1 session." in mine.get("/sessions").text
    # What names a session opens none.
    assert Browser(place.port, {"kraft-session": handle[1]}).get("/sessions").status == 303


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted({each.path for each in CHANGES}) or ["/none"])
def test_no_change_is_made_by_a_form_of_somebody_else(place: Place, path: str) -> None:
    """Each change of the table: without a token, with another session's, from another origin, and as plain text."""
    browser, other = forms(place)
    where = re.sub(r"\{cluster\}", "scram", path)
    where = re.sub(r"\{[a-z_]+(:[a-z]+)?\}", TOPIC, where)
    token, foreign = (token_in(each.get("/clusters/scram/topics").text) for each in (browser, other))
    before = topics(place)
    refused = [
        browser.post(where, {}),
        browser.post(where, {"token": foreign}),
        browser.post(where, {"token": token}, Origin="http://evil.example"),
        browser.post(where, {"token": token}, **{"Sec-Fetch-Site": "cross-site"}),
        browser.post(f"/api{where}", {"token": token}, **{"Content-Type": "text/plain"}),
        browser.post(f"/api{where}", {}, **{"Content-Type": "application/json"}),
    ]
    assert [each.status for each in refused] in (
        [403, 403, 403, 403, 415, 400],
        [404] * 6,
        [403, 403, 403, 403, 415, 403],
    )
    assert topics(place) == before


_FORMS: dict[int, tuple[Browser, Browser]] = {}


def forms(place: Place) -> tuple[Browser, Browser]:
    """Return two browsers of the same user, logged in once for all tests."""
    if place.port not in _FORMS:
        found = (place.browser(), place.browser())
        for each in found:
            assert each.log_in("scram", "bob", PASSWORD).status == 303
        _FORMS[place.port] = found
    return _FORMS[place.port]


def topics(place: Place) -> list[str]:
    with Admin(place.servers) as admin:
        return sorted(admin.list_topics())


# --- strangers ---------------------------------------------------------------------------------------------------


def raw(place: Place, sent: bytes) -> socket.socket:
    """Return a connection of an address that nobody trusts, with these bytes sent."""
    found = socket.create_connection(("127.0.0.1", place.port), timeout=30, source_address=("127.0.0.2", 0))
    found.sendall(sent)
    return found


def answered(connection: socket.socket) -> bytes:
    with closing(connection), contextlib.suppress(ConnectionResetError):
        return b"".join(iter(partial(connection.recv, 65_536), b""))
    return b""


def test_connections_that_wait_lock_nobody_out(place: Place) -> None:
    half = f"GET / HTTP/1.1\r\nHost: localhost:{place.port}\r\nX-Half:".encode()
    with contextlib.ExitStack() as kept:
        waiting = [kept.enter_context(raw(place, half if number % 2 else b"")) for number in range(OF_ADDRESS_MAX + 50)]
        assert all(place.browser().get("/login?cluster=prod").status == 200 for _ in range(3))
        complete = half + b" no\r\nConnection: close\r\n\r\n"
        assert answered(raw(place, complete)).startswith(b"HTTP/1.1 200 OK")
        # Who came first made room for who came last.
        waiting[0].settimeout(5)
        with contextlib.suppress(ConnectionResetError):
            assert waiting[0].recv(1) == b""


def test_requests_that_are_cut_off_too_long_or_ambiguous_are_refused_and_not_logged(place: Place) -> None:
    host = f"Host: localhost:{place.port}\r\n".encode()
    form = b"POST /login HTTP/1.1\r\n" + host + b"Content-Type: application/x-www-form-urlencoded\r\n"
    before = len(place.log.read_bytes())
    for _ in range(20):
        raw(place, form + b"Content-Length: 1000\r\n\r\ntoken=").close()
    smuggled = b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET / HTTP/1.1\r\n" + host + b"\r\n"
    for sent in (form + smuggled, b"GET / HTTP/1.1\r\n" + host + b"X-Long: " + b"x" * 100_000):
        answer = answered(raw(place, sent))
        assert (answer[:13], answer.count(b"HTTP/1.1 ")) == (b"HTTP/1.1 400 ", 1)
    assert place.browser().get("/").status == 200
    assert place.log.read_bytes()[before:] == b""
