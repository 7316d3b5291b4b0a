"""Moves and elections in the console, at a real cluster of three nodes: from the plan to the end of its throttle."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from typing import Any, Final

import pytest

from kraft.client import Admin, NewTopic, Producer, TopicPartition
from kraft.model.configs import ConfigSource
from kraft.moves.throttled_replicas import REPLICATION_RATES
from tests.support.console_browser import Answer, Browser, token_in
from tests.support.console_cluster import ConsoleCluster, console_cluster, rights
from tests.support.waiting import until

TOPIC: Final = "orders"
MOVED: Final = TopicPartition(TOPIC, 0)
SLOW: Final = "100"
"""Bytes each second: no move ends at this rate while a test looks at it."""


@pytest.fixture(name="place", scope="module")
def _place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleCluster]:
    with console_cluster(tmp_path_factory.mktemp("moves"), 3, rights(TOPIC)) as place:
        servers = place.cluster.bootstrap_servers
        with Admin(servers) as admin, Producer(servers) as producer:
            admin.create_topics([NewTopic(topic=TOPIC, assignments=[[1, 2], [2, 3]])])
            # More than one fetch, which a throttle lets pass.
            for _ in range(6):
                producer.send(TOPIC, b"x" * 500_000, partition=0).result(30)
        yield place


@pytest.fixture(name="admin", scope="module")
def _admin(place: ConsoleCluster) -> Iterator[Admin]:
    with Admin(place.cluster.bootstrap_servers) as admin:
        yield admin


@pytest.fixture(name="who", params=["prod", "open"])
def _who(request: pytest.FixtureRequest, place: ConsoleCluster) -> tuple[str, Browser]:
    """Return the cluster's address and who may do everything: over Kafka's protocol, and over gRPC."""
    name: str = request.param
    return f"/clusters/{name}", place.browsers["root" if name == "prod" else "nobody"]


def api(browser: Browser, path: str) -> Any:
    answer = browser.get(f"/api{path}")
    assert answer.status == 200, answer.text
    return json.loads(answer.text)


def sent(browser: Browser, path: str, **fields: str) -> Answer:
    """Send a form. Not every page here has one that is always there, so the token is that of another page."""
    form = browser.get("/".join(path.split("/")[:3]) + "/users/password")
    return browser.post(path, {"token": token_in(form.text), **fields})


def replicas(admin: Admin) -> list[int]:
    return list(admin.describe_topics([TOPIC])[0].metadata.partitions[0].replica_nodes)


def rates(admin: Admin) -> set[str]:
    """Return the rates of throttles that a broker has."""
    return {
        each.name
        for broker in (1, 2, 3)
        for each in admin.describe_broker_configs(broker)
        if each.name in REPLICATION_RATES and each.config_source == ConfigSource.DYNAMIC_BROKER_CONFIG
    }


def plan_in(page: Answer) -> str:
    found = re.search(r'name="plan" value="([^"]+)"', page.text)
    assert found is not None, page.text
    return html.unescape(found[1])


@pytest.mark.slow
def test_a_plan_is_reviewed_run_watched_cancelled_and_run_to_its_end(who: tuple[str, Browser], admin: Admin) -> None:
    base, browser = who
    before = replicas(admin)
    (other,) = {1, 2, 3}.difference(before)
    page = browser.get(f"{base}/moves/plan?way=off&off={before[1]}&topics={TOPIC}")
    text = next(line for line in plan_in(page).split("\n") if line.startswith("orders-0"))
    assert text == f"orders-0: {before[0]},{before[1]} -> {before[0]},{other}"
    assert "2.9 MiB" in page.text
    started = sent(browser, f"{base}/moves/plan", plan=text, throttle=SLOW)
    assert (started.status, started.headers["location"]) == (303, f"{base}/moves")
    shown = browser.get(f"{base}/moves").text
    assert "1 move was started, throttled to 100 B each second" in shown
    assert 'hx-trigger="every 3s"' in shown
    (row,) = api(browser, f"{base}/moves?part=progress")["moving"]["value"]["moves"]["rows"]
    assert [each["broker"] for each in row["move"]["copies"]] == [other]
    assert (row["move"]["removing"], row["move"]["is_throttled"]) == ([before[1]], True)
    again = sent(browser, f"{base}/moves/plan", plan=text)
    assert (again.status, "orders-0 is moving already" in again.text) == (409, True)

    cancelled = sent(browser, f"{base}/moves", do="cancel", partitions="orders-0")
    assert (cancelled.status, replicas(admin)) == (303, before)
    until(lambda: rates(admin) == set(), "each broker knows that the throttle is gone")
    late = sent(browser, f"{base}/moves", do="cancel", partitions="orders-0")
    assert (late.status, "none of these partitions is moving any more" in late.text) == (409, True)

    assert sent(browser, f"{base}/moves/plan", plan=text, throttle="1 GiB").status == 303
    until(lambda: not admin.list_partition_reassignments(), "the move is complete")
    assert replicas(admin) == [before[0], other]
    left = api(browser, f"{base}/moves")["throttles"]["value"]
    assert (left["over"], left["is_left"]) == (["orders-0"], True)
    assert "A throttle was left" in browser.get(f"{base}/moves").text
    assert sent(browser, f"{base}/moves", do="finish", partitions="orders-0").status == 303
    until(lambda: rates(admin) == set(), "each broker knows that the throttle is gone")
    assert "No replication is throttled" in browser.get(f"{base}/moves").text
    stale = sent(browser, f"{base}/moves/plan", plan=text)
    assert (stale.status, "the plan is out of date: orders-0 has its replicas on" in stale.text) == (409, True)
    # What was typed is still there, with the reason.
    assert plan_in(stale) == text


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"plan": "orders"}, "line 1 of the plan"),
        ({"plan": "orders-0: 1 -> 9"}, "the plan is out of date"),
        ({"plan": "orders-1: 2,3 -> 2,9"}, "there is no broker 9"),
        ({"plan": "orders-1: 2,3 -> 2,1", "throttle": "fast"}, "throttle: &#39;fast&#39; is no rate"),
        ({"plan": "nothing-0: 1 -> 2"}, "nothing-0 does not exist any more"),
    ],
)
def test_a_plan_that_cannot_be_run_is_a_sentence(place: ConsoleCluster, fields: dict[str, str], sentence: str) -> None:
    answer = sent(place.browsers["nobody"], "/clusters/open/moves/plan", **fields)
    assert answer.status in (400, 409)
    assert sentence in answer.text


def test_who_may_not_move_is_told_so_and_nothing_moves(place: ConsoleCluster, admin: Admin) -> None:
    answer = sent(place.browsers["operator"], "/clusters/prod/moves/plan", plan="orders-1: 2,3 -> 2,1", throttle=SLOW)
    assert (answer.status, "you may not do this" in answer.text) == (403, True)
    assert (admin.list_partition_reassignments(), rates(admin)) == ({}, set())
    viewer = place.browsers["viewer"].get("/clusters/prod/moves")
    assert (viewer.status, "you may not see this" in viewer.text) == (403, True)


def test_preferred_leaders_are_elected_and_unclean_ones_only_with_their_name(
    who: tuple[str, Browser], admin: Admin
) -> None:
    base, browser = who
    first, second = replicas(admin)
    admin.alter_partition_reassignments({MOVED: [second, first]})
    listed = api(browser, f"{base}/moves/elections")["leaders"]["value"]["not_preferred"]["rows"]
    assert [(each["partition"], each["leader"], each["preferred"]) for each in listed] == [(0, first, second)]
    assert sent(browser, f"{base}/moves/elections", partitions="orders-0").status == 303
    assert "1 leader was elected" in browser.get(f"{base}/moves/elections").text
    again = sent(browser, f"{base}/moves/elections", topics="ord*")
    assert again.status == 303
    assert "No partition needs an election" in browser.get(f"{base}/moves/elections").text
    act = f"{base}/moves/elections/unclean"
    assert "it needs no unclean election" in browser.get(f"{act}?which=orders-0").text
    unsure = sent(browser, act, which="orders-0")
    assert (unsure.status, "type orders-0" in unsure.text) == (400, True)
    unneeded = sent(browser, act, which="orders-0", confirm="orders-0")
    assert (unneeded.status, "has a leader by now" in unneeded.text) == (409, True)


def test_a_broker_says_what_it_holds_and_what_depends_on_it(who: tuple[str, Browser]) -> None:
    base, browser = who
    facts = api(browser, f"{base}/brokers/2")["facts"]["value"]
    assert facts["is_controller"]
    assert TOPIC in {each["topic"] for each in facts["replicas"]["rows"]}
    assert "Safe to restart" in browser.get(f"{base}/brokers/2").text
    missing = browser.get(f"{base}/brokers/9")
    assert (missing.status, "there is no broker 9" in missing.text) == (404, True)
    sizes = api(browser, f"{base}?more=true")["sizes"]["value"]
    assert sizes["size_bytes"] > 3_000_000
    rows = api(browser, f"{base}/brokers")["brokers"]["value"]
    assert sum(each["replicas_skew"] for each in rows) in (-1, 0, 1)
    refused = sent(browser, f"{base}/brokers/2", partitions="orders-1", directory="/nowhere")
    assert (refused.status, "has no log directory /nowhere" in refused.text) == (400, True)
