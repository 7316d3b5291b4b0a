"""What the console refuses before it asks a cluster, and what a login and its end do: each guard by its effect."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncGenerator, Iterator
from typing import Any

import pytest

from kraft.client import AuthenticationFailed, ErrorCode
from kraft.console import app, sessions, streams
from kraft.console.asking import Asked
from kraft.console.console import now_ms
from kraft.console.protection import FORM_BYTES_MAX
from kraft.console.route_kinds import Stream
from kraft.console.streams import Event
from tests.support.console_browser import token_in
from tests.support.console_in_process import PASSWORD, InProcess, LocalBrowser, in_process

CHANGE = "/clusters/prod/topics/orders/delete"
COOKIE = "kraft-session"


@pytest.fixture(name="world")
def _world() -> Iterator[InProcess]:
    with in_process() as world:
        yield world


def logged_in(world: InProcess, user: str = "alice", cluster: str = "prod") -> LocalBrowser:
    browser = world.browser()
    assert browser.log_in(cluster, user, PASSWORD).status == 303
    return browser


def token_of(browser: LocalBrowser) -> str:
    return token_in(browser.get("/sessions").text)


# --- changes ---------------------------------------------------------------------------------------------------------


def test_a_change_needs_the_token_of_its_own_session(world: InProcess) -> None:
    browser = logged_in(world)
    own, another = token_of(browser), token_of(logged_in(world, "bob"))
    nobodys = token_in(world.browser().get("/login?cluster=prod").text)
    for token in ("", another, nobodys):
        assert browser.post(CHANGE, {"token": token}).status == 403
        assert browser.send(f"/api{CHANGE}", {}, **{"X-Kraft-Token": token}).status == 403
        assert browser.post("/logout", {"token": token}).status == 403
        assert browser.post("/sessions/end", {"token": token}).status == 403
    # The change itself says that it cannot be made.
    assert browser.post(CHANGE, {"token": own}).status == 400
    assert browser.send(f"/api{CHANGE}", {}, **{"X-Kraft-Token": own}).status == 400


@pytest.mark.parametrize(
    "headers", [{"Origin": "http://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "same-site"}]
)
def test_a_change_comes_from_our_own_pages(world: InProcess, headers: dict[str, str]) -> None:
    browser = logged_in(world)
    token = token_of(browser)
    assert browser.post(CHANGE, {"token": token}, **headers).status == 403
    assert browser.send(f"/api{CHANGE}", {}, **{"X-Kraft-Token": token, **headers}).status == 403
    stranger = world.browser()
    fields = {"cluster": "prod", "user": "alice", "password": PASSWORD}
    assert stranger.send("/api/login", fields, **headers).status == 403
    assert stranger.post("/login", {**fields, "token": "any"}, **headers).status == 403


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", ""])
def test_other_sites_cannot_send_json_as_a_form(world: InProcess, content_type: str) -> None:
    browser = logged_in(world)
    headers = {"X-Kraft-Token": token_of(browser), "Content-Type": content_type}
    assert browser.send(f"/api{CHANGE}", {}, **headers).status == 415


def test_forms_are_bounded(world: InProcess) -> None:
    browser = logged_in(world)
    token = token_of(browser)
    assert browser.post(CHANGE, {"token": token, "confirm": "x" * FORM_BYTES_MAX}).status == 413


# --- requests --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["evil.example", "localhost", "localhost.evil.example:8080", ""])
def test_other_hosts_are_refused(world: InProcess, host: str) -> None:
    answer = world.browser().get("/", Host=host)
    assert answer.status == 421
    assert answer.headers["cache-control"] == "no-store"


def test_a_request_with_two_lengths_is_refused(world: InProcess) -> None:
    headers = {"Content-Length": "1", "Transfer-Encoding": "chunked"}
    assert world.browser().get("/", **headers).status == 400


@pytest.mark.parametrize(
    ("site", "mode", "dest", "status"),
    [
        ("cross-site", "navigate", "document", 200),
        ("same-origin", "cors", "empty", 200),
        ("cross-site", "navigate", "iframe", 403),
        ("cross-site", "no-cors", "image", 403),
        ("same-site", "cors", "empty", 403),
    ],
)
def test_pages_of_other_sites_may_only_lead_here(
    world: InProcess, site: str, mode: str, dest: str, status: int
) -> None:
    headers = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": mode, "Sec-Fetch-Dest": dest}
    assert world.browser().get("/api/clusters", **headers).status == status


def test_nobody_is_asked_to_log_in(world: InProcess) -> None:
    stranger = world.browser()
    assert stranger.get("/clusters/prod/topics").headers["location"].startswith("/login?cluster=prod&next=")
    assert stranger.get("/api/clusters/prod/topics").status == 401
    assert stranger.get("/clusters/prod/topics/orders/tail/events").status == 401
    # A login is one of a cluster only.
    browser = logged_in(world, cluster="test")
    assert browser.get("/api/clusters/prod/topics").status == 401


# --- logins ----------------------------------------------------------------------------------------------------------


def test_a_login_has_a_new_id_that_scripts_and_other_sites_do_not_get(world: InProcess) -> None:
    browser = world.browser()
    browser.cookies[COOKIE] = "planted"
    assert browser.log_in("prod", "alice", PASSWORD).status == 303
    first, line = browser.cookies[COOKIE], next(each for each in browser.set if each.startswith(COOKIE))
    assert {"HttpOnly", "Path=/", "SameSite=strict"} <= set(line.split("; "))
    assert browser.log_in("test", "alice", PASSWORD).status == 303
    assert browser.cookies[COOKIE] not in ("planted", first)
    thief = world.browser()
    thief.cookies[COOKIE] = first
    assert thief.get("/api/clusters/prod/topics").status == 401


def test_cookies_are_for_https_where_browsers_come_by_it() -> None:
    with in_process(**{"advertised.listeners": "https://console.example"}) as world:
        browser = world.browser()
        browser.get("/login?cluster=prod")
        assert "Secure" in browser.set[0].split("; ")
        assert browser.set[0].startswith("__Host-")


@pytest.mark.parametrize("fields", [{"password": ""}, {"user": ""}, {"user": "a" * 256}])
def test_a_login_that_says_too_little_is_one_sentence(world: InProcess, fields: dict[str, str]) -> None:
    given = {"cluster": "prod", "user": "alice", "password": PASSWORD, **fields}
    answer = world.browser().send("/api/login", given)
    assert (answer.status, json.loads(answer.text)["error"][:4]) == (400, "Give")


def test_guessing_is_slowed_down(world: InProcess) -> None:
    browser = world.browser()
    statuses = [browser.log_in("prod", "alice", f"guess {each}").status for each in range(7)]
    assert statuses[:2] == [401, 401]
    assert statuses[-1] == 429
    given = {"cluster": "prod", "user": "alice", "password": "guess"}
    assert browser.send("/api/login", given).status == 429


def test_a_login_needs_the_token_of_its_browser(world: InProcess) -> None:
    fields = {"cluster": "prod", "user": "alice", "password": PASSWORD}
    browser, other = world.browser(), world.browser()
    token = token_in(other.get("/login?cluster=prod").text)
    assert browser.post("/login", {**fields, "token": token}).status == 403
    browser.get("/login?cluster=prod")
    assert browser.post("/login", {**fields, "token": token}).status == 403
    assert not world.opened


@pytest.mark.parametrize("after", ["//evil.example", "https://evil.example", "/clusters/\\evil.example"])
def test_a_login_leads_to_no_other_site(world: InProcess, after: str) -> None:
    browser = world.browser()
    token = token_in(browser.get("/login?cluster=prod").text)
    fields = {"cluster": "prod", "user": "alice", "password": PASSWORD, "token": token, "next": after}
    assert browser.post("/login", fields).headers["location"] == "/clusters/prod"


def test_one_user_does_not_lock_others_out(world: InProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "SESSIONS_MAX", 5)
    monkeypatch.setattr(sessions, "SESSIONS_OF_A_USER_MAX", 3)
    browsers = [logged_in(world) for _ in range(9)]
    assert logged_in(world, "bob").get("/sessions").status == 200
    assert [each.get("/sessions").status for each in browsers] == [303] * 6 + [200] * 3
    closed: list[Any] = [each.admin for each in world.opened]
    assert [each.closed for each in closed] == [True] * 6 + [False] * 4


def test_logging_out_ends_everything(world: InProcess) -> None:
    browser = logged_in(world)
    token, session = token_of(browser), browser.cookies[COOKIE]
    stranger = world.browser()
    logged_in(world, "alice")
    # Another session of the same user is ended: the sentence about it waits for the next page.
    assert browser.post("/sessions/end", {"token": token}).status == 303
    assert browser.cookies["kraft-said"]
    assert browser.post("/logout", {"token": token}).status == 303
    assert browser.cookies["kraft-said"] == ""
    stranger.cookies[COOKIE] = session
    assert stranger.get("/api/clusters/prod/topics").status == 401
    admin: Any = world.opened[0].admin
    assert admin.closed


def test_people_end_their_own_sessions_only(world: InProcess) -> None:
    browser, own, bobs = logged_in(world), logged_in(world), logged_in(world, "bob")
    handle = bobs.get("/sessions").text.partition('name="handle" value="')[2].partition('"')[0]
    token = token_of(browser)
    for each in (handle, ""):
        browser.post("/sessions/end", {"token": token, "handle": each})
    assert own.get("/sessions").status == 303
    assert bobs.get("/sessions").status == 200


# --- what the next page says -----------------------------------------------------------------------------------------


def test_a_sentence_is_not_forged_by_the_token_of_a_form(world: InProcess) -> None:
    said = base64.urlsafe_b64encode(b"Call 555").decode()
    for text in (said, "no base64"):
        browser = world.browser()
        browser.cookies["kraft-form"] = text
        token = token_in(browser.get("/login?cluster=prod").text)
        browser.cookies["kraft-said"] = f"{text}.{token}"
        answer = browser.get("/")
        assert answer.status == 200
        assert "Call 555" not in answer.text


def test_a_sentence_fits_in_a_cookie(world: InProcess) -> None:
    browser = world.browser()
    response = world.console.json({})
    world.console.say(response, "€" * 5_000)
    line = response.headers["set-cookie"]
    assert len(line) < 4_096
    browser.cookies["kraft-said"] = line.partition("=")[2].partition(";")[0].strip('"')
    assert "€" * 600 in browser.get("/").text


# --- streams ---------------------------------------------------------------------------------------------------------


async def beats(_: Asked) -> AsyncGenerator[Event, None]:
    while True:
        yield Event(name="beat", data=1)
        await asyncio.sleep(0)


@pytest.mark.parametrize("way", ["its user ends it", "the cluster ends it", "logout"])
def test_a_stream_ends_with_its_login(monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    """Also if another login of the same session goes on."""
    monkeypatch.setattr(app, "STREAMS", (Stream(path="/clusters/{cluster}/beats", events=beats, asks="nothing"),))
    with in_process() as world:
        stolen, own = logged_in(world), logged_in(world)
        stolen.log_in("test", "bob", PASSWORD)
        token, stolen_token = token_of(own), token_of(stolen)
        session = world.console.sessions.find(stolen.cookies[COOKIE], now_ms())
        assert session is not None
        said = bytearray()

        async def watched() -> None:
            begun = asyncio.Event()

            async def receive() -> Any:
                await asyncio.sleep(60)

            async def send(message: Any) -> None:
                said.extend(message.get("body", b""))
                if said:
                    begun.set()

            scope = stolen.scope("GET", "/clusters/prod/beats", {})
            streaming = asyncio.create_task(world.ask(scope, receive, send))
            await asyncio.wait_for(begun.wait(), 5)
            if way == "its user ends it":
                await own._asked(own.scope("POST", "/sessions/end", {}), f"token={token}".encode())
            elif way == "logout":
                await stolen._asked(stolen.scope("POST", "/logout", {}), f"token={stolen_token}".encode())
            else:
                world.console.sessions.log_out_of(session, "prod", session.logins["prod"].client)
            await asyncio.wait_for(streaming, 5)

        world.runner.run(watched())
        assert b"event: over" in said


def test_a_stream_of_an_open_cluster_is_nobodys(monkeypatch: pytest.MonkeyPatch) -> None:
    async def one_beat(_: Asked) -> AsyncGenerator[Event, None]:
        yield Event(name="beat", data=1)

    monkeypatch.setattr(app, "STREAMS", (Stream(path="/clusters/{cluster}/beats", events=one_beat, asks="nothing"),))
    with in_process(**{"clusters": "prod,test,open", "cluster.open.bootstrap.servers": "b:1"}) as world:
        for browser in (world.browser(), logged_in(world)):
            assert browser.get("/clusters/open/beats").text == "event: beat\ndata: 1\n\n"


def test_streams_of_a_user_are_bounded_however_many_sessions_there_are(
    world: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "STREAMS_OF_A_USER_MAX", 1)
    events, browsers = "/clusters/prod/topics/orders/tail/events", [logged_in(world) for _ in range(2)]
    bob = logged_in(world, "bob")
    with world.console.streams.one_more(("prod", ("alice", ""))):
        assert [each.get(events).status for each in browsers] == [503, 503]
        # This user may not view records, and is told so.
        assert bob.get(events).status == 200


def test_who_is_not_let_in_any_more_is_asked_to_log_in(world: InProcess) -> None:
    """The password was changed, or the user deleted."""
    for path, status in (("/clusters/prod/topics", 303), ("/api/clusters/prod/topics", 401)):
        browser = logged_in(world)
        admin: Any = world.opened[-1].admin
        admin.refusal = AuthenticationFailed(ErrorCode.SASL_AUTHENTICATION_FAILED, "no")
        answer = browser.get(path)
        assert answer.status == status
        assert admin.closed
        assert "/login?cluster=prod" in answer.headers.get("location", "/login?cluster=prod")
        assert browser.get("/api/clusters/prod/topics").status == 401
