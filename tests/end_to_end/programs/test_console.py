"""The console at a real cluster, over real HTTP: who may see what, and what protects the pages."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from kraft.client import Admin, Consumer, Producer, TopicPartition
from kraft.console.routes import ACTIONS, CHANGES, PAGES, STREAMS
from tests.support.console_api import assert_fits
from tests.support.console_browser import Answer, Browser, console, token_in
from tests.support.console_cluster import PASSWORD, USERS, cluster_of_users, console_settings, everybody, rights
from tests.support.console_pages import without_own_scripts
from tests.support.kafka.login_cluster import LoginCluster
from tests.support.waiting import until

SCRIPT: Final = "<script>alert(1)</script>"
TOPIC: Final = "orders"

EXPECTED: Final = {
    "/clusters/{cluster}": (303, 403, 200, 200),
    "/clusters/{cluster}/brokers": (303, 200, 200, 200),
    "/clusters/{cluster}/brokers/{broker}": (303, 403, 200, 200),
    "POST /clusters/{cluster}/brokers/{broker}": (303, 403, 403, 403),
    "/clusters/{cluster}/moves": (303, 403, 200, 200),
    "/clusters/{cluster}/moves/plan": (303, 200, 200, 200),
    "/clusters/{cluster}/moves/elections": (303, 200, 200, 200),
    # No partition is named.
    "/clusters/{cluster}/moves/elections/unclean": (303, 400, 400, 400),
    "POST /clusters/{cluster}/moves": (303, 403, 403, 403),
    "POST /clusters/{cluster}/moves/plan": (303, 403, 403, 403),
    "POST /clusters/{cluster}/moves/elections": (303, 403, 403, 403),
    "POST /clusters/{cluster}/moves/elections/unclean": (303, 403, 403, 403),
    "/clusters/{cluster}/topics": (303, 200, 200, 200),
    "/clusters/{cluster}/topics/{topic}": (303, 200, 200, 200),
    "/clusters/{cluster}/topics/{topic}/produce": (303, 200, 200, 200),
    # Viewing records is off where users log in, unless the console's file says otherwise.
    "/clusters/{cluster}/topics/{topic}/records": (303, 403, 403, 403),
    "/clusters/{cluster}/topics/{topic}/records/{partition}/{offset}": (303, 403, 403, 403),
    "/clusters/{cluster}/topics/{topic}/tail": (303, 403, 403, 403),
    "/clusters/{cluster}/topics/{topic}/tail/events": (401, 200, 200, 200),
    "/clusters/{cluster}/topics-new": (303, 200, 200, 200),
    "/clusters/{cluster}/topics/{topic}/partitions": (303, 200, 200, 200),
    "/clusters/{cluster}/topics/{topic}/configs": (303, 200, 200, 200),
    "/clusters/{cluster}/topics/{topic}/configs/{config}": (303, 200, 200, 200),
    "/clusters/{cluster}/topics/{topic}/delete-records": (303, 200, 200, 200),
    "/clusters/{cluster}/topics/{topic}/delete": (303, 200, 200, 200),
    "/clusters/{cluster}/brokers/{broker}/configs": (303, 403, 403, 200),
    "/clusters/{cluster}/brokers/{broker}/configs/{config}": (303, 403, 403, 200),
    "/clusters/{cluster}/groups": (303, 200, 200, 200),
    "/clusters/{cluster}/groups/{group:path}": (303, 403, 200, 200),
    "/clusters/{cluster}/users": (303, 403, 200, 200),
    # Of a new user, or nobody.
    "/clusters/{cluster}/users/password": (303, 200, 200, 200),
    "/clusters/{cluster}/users/delete": (303, 403, 400, 400),
    "/clusters/{cluster}/acls": (303, 403, 200, 200),
    "/clusters/{cluster}/acls/of": (303, 403, 200, 200),
    "/clusters/{cluster}/acls/create": (303, 200, 200, 200),
    # Of which ones?
    "/clusters/{cluster}/acls/delete": (303, 400, 400, 400),
    "/clusters/{cluster}/quotas": (303, 403, 403, 200),
    "/clusters/{cluster}/quotas/of": (303, 200, 200, 200),
    "/clusters/{cluster}/quotas/set": (303, 200, 200, 200),
    "/clusters/{cluster}/quotas/remove": (303, 200, 200, 200),
    # Kafka's protocol has no such call.
    "/clusters/{cluster}/clients": (303, 501, 501, 501),
    # It is not switched on, and whoever may not see it is not told so.
    "/clusters/{cluster}/audit": (303, 403, 404, 404),
    # Without the token of a form: nothing is done.
    "POST /clusters/{cluster}/users/password": (303, 403, 403, 403),
    "POST /clusters/{cluster}/users/delete": (303, 403, 403, 403),
    "POST /clusters/{cluster}/acls/create": (303, 403, 403, 403),
    "POST /clusters/{cluster}/acls/delete": (303, 403, 403, 403),
    "POST /clusters/{cluster}/quotas/set": (303, 403, 403, 403),
    "POST /clusters/{cluster}/quotas/remove": (303, 403, 403, 403),
    "/clusters/{cluster}/group-history/{group:path}": (303, 403, 200, 200),
    "/clusters/{cluster}/group-reset/{group:path}": (303, 403, 200, 200),
    "/clusters/{cluster}/group-offsets/{group:path}": (303, 403, 200, 200),
    "/clusters/{cluster}/group-members/{group:path}": (303, 403, 200, 200),
    "/clusters/{cluster}/group-delete/{group:path}": (303, 403, 200, 200),
    "/clusters/{cluster}/transactions": (303, 200, 200, 200),
    # There is none of this name.
    "/clusters/{cluster}/transactions/{transactional_id:path}": (303, 403, 403, 404),
    "/clusters/{cluster}/transaction-producers": (303, 200, 200, 200),
    "/clusters/{cluster}/transaction-hanging": (303, 200, 200, 200),
    # It does not say which.
    "/clusters/{cluster}/transaction-abort": (303, 400, 400, 400),
    "POST /clusters/{cluster}/group-reset/{group:path}": (303, 403, 403, 403),
    "POST /clusters/{cluster}/group-offsets/{group:path}": (303, 403, 403, 403),
    "POST /clusters/{cluster}/group-members/{group:path}": (303, 403, 403, 403),
    "POST /clusters/{cluster}/group-delete/{group:path}": (303, 403, 403, 403),
    "POST /clusters/{cluster}/transaction-abort": (303, 403, 403, 403),
    # Without the token of a session; tests/end_to_end/programs/test_console_actions.py has those that send it.
    "POST /clusters/{cluster}/topics-new": (303, 403, 403, 403),
    "POST /clusters/{cluster}/topics/{topic}/partitions": (303, 403, 403, 403),
    "POST /clusters/{cluster}/topics/{topic}/configs/{config}": (303, 403, 403, 403),
    "POST /clusters/{cluster}/topics/{topic}/delete-records": (303, 403, 403, 403),
    "POST /clusters/{cluster}/topics/{topic}/delete": (303, 403, 403, 403),
    "POST /clusters/{cluster}/brokers/{broker}/configs/{config}": (303, 403, 403, 403),
    "GET /": (200, 200, 200, 200),
    "GET /api": (200, 200, 200, 200),
    "GET /api/openapi.json": (200, 200, 200, 200),
    # A form is no JSON.
    "POST /api/login": (415, 415, 415, 415),
    "GET /api/clusters": (200, 200, 200, 200),
    "GET /login": (200, 200, 200, 200),
    # Without the token of a form: nothing is done.
    "POST /clusters/{cluster}/topics/{topic}/produce": (303, 403, 403, 403),
    "POST /login": (403, 403, 403, 403),
    # Users of this cluster log in with passwords.
    "GET /login/oidc/{cluster}": (404, 404, 404, 404),
    "GET /login/oidc/{cluster}/callback": (404, 404, 404, 404),
    "GET /sessions": (303, 200, 200, 200),
    "POST /sessions/end": (303, 403, 403, 403),
    "POST /logout": (303, 403, 403, 403),
    "GET /static/{file:path}": (200, 200, 200, 200),
}
"""The status of each route for each of the users."""


@pytest.fixture(name="cluster", scope="module")
def _cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoginCluster]:
    with cluster_of_users(tmp_path_factory.mktemp("cluster"), 1, rights(TOPIC)) as cluster:
        with Admin(cluster.bootstrap_servers) as admin:
            admin.create_topic(TOPIC, 3, 1)
        written(cluster.bootstrap_servers)
        yield cluster


def written(servers: str) -> None:
    """Write ten records, and read some of them as a group and a client with scripts for names."""
    with Producer(servers) as producer:
        for number in range(10):
            producer.send(TOPIC, b"%d" % number, partition=0).result(30)
    with Consumer(servers, group_id=SCRIPT, client_id=SCRIPT, auto_offset_reset="earliest") as consumer:
        consumer.subscribe([TOPIC])
        until(lambda: bool(list(consumer.poll(500))), "records are read")
        consumer.commit()


@pytest.fixture(name="port", scope="module")
def _port(cluster: LoginCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with console(tmp_path_factory.mktemp("console"), console_settings(cluster)) as port:
        yield port


@pytest.fixture(name="browsers", scope="module")
def _browsers(port: int) -> dict[str, Browser]:
    """Everybody, logged in."""
    return everybody(port)


def path_of(pattern: str, cluster: str = "prod") -> str:
    group = "%3Cscript%3Ealert(1)%3C%2Fscript%3E"
    names = {
        "{cluster}": cluster,
        "{topic}": TOPIC,
        "{broker}": "1",
        "{partition}": "0",
        "{offset}": "0",
        "{config}": "compression.type",
        "{group:path}": group,
        "{file:path}": "console.css",
    }
    for name, text in names.items():
        pattern = pattern.replace(name, text)
    return pattern


def test_every_route_has_a_row() -> None:
    pages, changes = {each.path for each in PAGES + STREAMS}, {f"POST {each.path}" for each in CHANGES}
    assert set(EXPECTED) == pages | changes | {f"{each.method} {each.path}" for each in ACTIONS}


@pytest.mark.slow
@pytest.mark.parametrize("row", EXPECTED)
def test_every_route_answers_each_user_as_its_row_says(browsers: dict[str, Browser], row: str) -> None:
    method, _, pattern = row.rpartition(" ")
    path = path_of(pattern)
    statuses = tuple(
        (each.post(path, {"cluster": "prod"}) if method == "POST" else each.get(path)).status
        for each in map(browsers.__getitem__, USERS)
    )
    assert statuses == EXPECTED[row]
    if pattern in {each.path for each in PAGES} and not method:
        answers = [browsers[user].get("/api" + path) for user in USERS]
        for each in answers:
            assert_fits("/api" + pattern, "get", each)
        of_api = tuple(each.status for each in answers)
        assert of_api == (401, *EXPECTED[row][1:])


def page(browser: Browser, path: str) -> Answer:
    answer = browser.get(path)
    assert answer.status == 200, answer.text
    assert "<script" not in without_own_scripts(answer.text)
    assert not any(each in answer.text for each in ('="http', '="//', "url(", "style="))
    return answer


@pytest.mark.parametrize("name", ["prod", "open"])
def test_pages_and_api_show_the_cluster(browsers: dict[str, Browser], name: str) -> None:
    """By Kafka's protocol as the administrator, and by gRPC where the cluster is open."""
    browser = browsers["root" if name == "prod" else "nobody"]
    base = f"/clusters/{name}"
    assert "Healthy" in page(browser, base).text
    health = json.loads(browser.get(f"/api{base}").text)["health"]["value"]
    assert (health["state"], health["brokers_in_service"], health["under_replicated"]) == ("healthy", 1, 0)
    assert health["restarts"][0]["safe"] is False
    directories = json.loads(browser.get(f"/api{base}/brokers").text)["directories"]["value"]
    assert directories[0]["directories"][0]["replicas"] >= 3
    assert "in service" in page(browser, f"{base}/brokers").text
    assert f">{TOPIC}</a>" in page(browser, f"{base}/topics?q=ORD").text
    assert "No topic has" in page(browser, f"{base}/topics?q=%3Cscript%3E").text
    offsets = json.loads(browser.get(f"/api{base}/topics/{TOPIC}").text)["offsets"]["value"]
    assert (offsets["0"]["start"], offsets["0"]["end"]) == (0, 10)
    assert "The topic sets none" in page(browser, f"{base}/topics/{TOPIC}").text
    assert "retention.ms" in page(browser, f"{base}/topics/{TOPIC}/configs").text
    assert "&lt;script&gt;" in page(browser, f"{base}/groups").text
    lags = json.loads(browser.get("/api" + path_of(f"{base}/groups/{{group:path}}")).text)["lags"]
    assert lags["problem"] == ""
    first = lags["value"]["rows"][0]
    assert (first["end"], first["lag"]) == (10, 10 - first["committed"])
    assert "Nobody reads in this group now" in page(browser, path_of(f"{base}/groups/{{group:path}}")).text


def test_a_script_logs_in_and_changes_something_only_with_its_token(port: int) -> None:
    script = Browser(port)
    for fields, status in (
        ({"cluster": "prod", "user": "root", "password": "wrong"}, 401),
        ({"cluster": "prod"}, 400),
        ({"cluster": "elsewhere"}, 404),
        ([], 400),
    ):
        refused = script.send("/api/login", fields)
        assert refused.status == status, refused.text
        assert_fits("/api/login", "post", refused)
    fields = {"cluster": "prod", "user": "root", "password": PASSWORD}
    assert script.send("/api/login", fields, Origin="http://evil.example").status == 403
    answer = script.send("/api/login", fields)
    assert_fits("/api/login", "post", answer)
    assert (answer.status, json.loads(answer.text)["user"]) == (200, "root")
    assert script.get("/api/clusters/prod").status == 200
    assert_fits("/api/clusters", "get", script.get("/api/clusters"))
    assert script.post("/logout", {"token": json.loads(answer.text)["token"]}).status == 303


def test_the_documented_commands_of_a_script_run(port: int, tmp_path: Path) -> None:
    section = (Path(__file__).parents[3] / "docs/console.md").read_text().partition("## Scripts")[2]
    commands = section.partition("```sh\n")[2].partition("```")[0]
    for written, here in (("https://console.example:8443", f"http://localhost:{port}"), ("alice", "root")):
        assert written in commands
        commands = commands.replace(written, here)
    commands = commands.replace('"..."', json.dumps(PASSWORD))
    ran = subprocess.run(
        ["sh", "-euc", commands], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert TOPIC in ran.stdout


def test_a_user_sees_what_the_acls_let_this_user_see(browsers: dict[str, Browser]) -> None:
    seen = json.loads(browsers["viewer"].get("/api/clusters/prod/topics").text)["topics"]["value"]
    assert [each["topic"] for each in seen["rows"]] == [TOPIC]
    assert json.loads(browsers["viewer"].get("/api/clusters/prod/groups").text)["groups"]["value"]["rows"] == []
    refused = browsers["viewer"].get("/clusters/prod")
    assert "you may not see this" in refused.text
    missing = browsers["root"].get("/clusters/prod/topics/missing")
    assert (missing.status, "Not shown" in missing.text) == (404, True)
    assert browsers["root"].get("/clusters/elsewhere").status == 404


def test_a_login_begins_and_ends_a_session(port: int) -> None:
    browser = Browser(port)
    refused = browser.log_in("prod", "viewer", "wrong")
    assert (refused.status, "refuses this user or this password" in refused.text) == (401, True)
    # An id that somebody else planted is not the one that is logged in.
    browser.cookies["kraft-session"] = "planted"
    answer = browser.log_in("prod", "viewer", PASSWORD)
    assert browser.cookies["kraft-session"] != "planted"
    cookie = answer.headers["set-cookie"].lower()
    assert all(each in cookie for each in ("httponly", "samesite=strict", "path=/"))
    shown = browser.get("/clusters/prod/topics")
    stolen = Browser(port, dict(browser.cookies))
    assert stolen.get("/clusters/prod/topics").status == 200
    assert browser.post("/logout", {"token": "guessed"}).status == 403
    foreign = browser.post("/logout", {"token": token_in(shown.text)}, Origin="http://evil.example")
    assert foreign.status == 403
    assert browser.post("/logout", {"token": token_in(shown.text)}).status == 303
    # Whoever kept the cookie is nobody.
    assert stolen.get("/clusters/prod/topics").headers["location"].startswith("/login?")
    assert stolen.get("/api/clusters/prod/topics").status == 401


def test_every_answer_is_protected_and_other_hosts_are_refused(port: int) -> None:
    browser = Browser(port)
    for path in ("/", "/login", "/missing", "/clusters/prod", "/api/clusters/prod", "/static/console.css"):
        answer = browser.get(path)
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
    rebound = browser.get("/clusters/open/topics", Host="evil.example")
    assert (rebound.status, TOPIC in rebound.text) == (421, False)
    assert "content-security-policy" in rebound.headers
    assert browser.get("/static/..%2Fapp.py").status == 404
    assert browser.post("/clusters/open", {}).status == 405


def test_who_guesses_a_password_has_to_wait(port: int) -> None:
    browser = Browser(port)
    statuses = [browser.log_in("prod", "guessed", f"{number}").status for number in range(6)]
    assert statuses == [401] * 5 + [429]
    assert browser.log_in("prod", "viewer", PASSWORD).status == 303


# --- records that are written by hand ------------------------------------------------------------------------------


def produced(browser: Browser, cluster: str, **fields: str) -> Answer:
    """Send the form of a record, as a browser does."""
    path = f"/clusters/{cluster}/topics/{TOPIC}/produce"
    form = page(browser, path).text
    once = re.search(r'name="once" value="([^"]+)"', form)
    assert once is not None
    return browser.post(path, {"token": token_in(form), "once": once[1], **fields})


@pytest.mark.parametrize("name", ["prod", "open"])
def test_a_record_is_stored_as_it_was_typed(cluster: LoginCluster, browsers: dict[str, Browser], name: str) -> None:
    """By Kafka's protocol as the administrator, and by gRPC where the cluster is open."""
    browser = browsers["root" if name == "prod" else "nobody"]
    headers = f"trace: 7\r\n{SCRIPT}: {SCRIPT}\r\nempty"
    fields = {
        "key": "00 ff",
        "key_format": "hex",
        "value": '{"total": 7}',
        "value_format": "json",
        "compression": "zstd",
    }
    answer = produced(browser, name, **fields, headers=headers, partition="1")
    assert answer.status == 303, answer.text
    offset = int(answer.headers["location"].rpartition("=")[2])
    said = page(browser, answer.headers["location"]).text
    assert f"The record is stored in {TOPIC}, partition 1, at offset {offset}." in said
    assert f'href="/clusters/{name}/topics/{TOPIC}/records/1/{offset}"' in said
    with Consumer(cluster.bootstrap_servers) as consumer:
        place = TopicPartition(TOPIC, 1)
        consumer.assign([place])
        consumer.seek(place, offset)
        (record,) = consumer.poll(20_000)
    assert (record.key, record.value) == (b"\x00\xff", b'{"total": 7}')
    assert record.headers == (("trace", b"7"), (SCRIPT, SCRIPT.encode()), ("empty", None))


@pytest.mark.slow
def test_a_record_is_stored_once_and_only_by_who_may(browsers: dict[str, Browser]) -> None:
    path = f"/clusters/open/topics/{TOPIC}/produce"
    answers = [produced(browsers["nobody"], "open", value="x", once="the same") for _ in range(2)]
    assert [each.status for each in answers] == [303, 400]
    assert "this form was sent before" in answers[1].text
    refused = produced(browsers["viewer"], "prod", value="x")
    assert (refused.status, "TOPIC_AUTHORIZATION_FAILED" in refused.text) == (403, True)
    typed = produced(browsers["nobody"], "open", value=SCRIPT, value_format="json")
    assert (typed.status, "the value is not JSON" in typed.text, "&lt;script&gt;" in typed.text) == (400, True, True)
    # It is looked for first, and on a busy machine the time of the page may end meanwhile, with a 504.
    until(lambda: produced(browsers["nobody"], "open", value="x", partition="99").status == 404, "it is not missing")
    assert produced(browsers["nobody"], "open", value="x" * (1 << 20)).status == 413
    slip = browsers["nobody"].send("/api" + path, {"key": "k", "tombstones": True})
    assert (slip.status, "'tombstones' is no member" in slip.text) == (400, True)
    sent = browsers["nobody"].send("/api" + path, {"key": "k", "tombstone": True, "headers": ["a: b"]})
    assert (sent.status, json.loads(sent.text)["value"]["topic"]) == (200, TOPIC)
