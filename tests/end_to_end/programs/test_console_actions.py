"""What the console changes at a real cluster of three nodes, over real HTTP: as an administrator and as others."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

import pytest

from kraft.client import Admin, Producer, TopicPartition
from kraft.model.access import Operation
from tests.support.acl_entries import entry
from tests.support.console_browser import Answer, Browser, token_in
from tests.support.console_cluster import ConsoleCluster, console_cluster, rights, sent
from tests.support.waiting import until, until_committed

TOPIC: Final = "orders"
SETTINGS: Final = {
    # One that is paused stays in service for so long.
    "broker.session.timeout.ms": "60000",
    "offsets.topic.num.partitions": "6",
    "transaction.state.log.num.partitions": "3",
}


@pytest.fixture(name="place", scope="module")
def _place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleCluster]:
    with console_cluster(tmp_path_factory.mktemp("actions"), 3, rights(TOPIC), **SETTINGS) as place:
        yield place


@pytest.fixture(name="who", params=["prod", "open"])
def _who(place: ConsoleCluster, request: pytest.FixtureRequest) -> tuple[str, Browser]:
    """Return the cluster's name and its administrator: over Kafka's protocol, and over gRPC."""
    return request.param, place.administrator(request.param)


@pytest.fixture(name="admin", scope="module")
def _admin(place: ConsoleCluster) -> Iterator[Admin]:
    with Admin(place.cluster.bootstrap_servers) as admin:
        yield admin


def done(answer: Answer, where: str) -> None:
    assert (answer.status, answer.headers.get("location")) == (303, where), answer.text


def view_of(browser: Browser, path: str) -> Any:
    answer = browser.get("/api" + path)
    assert answer.status == 200, answer.text
    return json.loads(answer.text)


def test_a_topic_is_made_with_a_preview_grown_purged_and_deleted(
    who: tuple[str, Browser], place: ConsoleCluster, admin: Admin
) -> None:
    """The whole life of a topic, at the pages' own forms."""
    name, browser = who
    topic, base = f"new-{name}", f"/clusters/{name}"
    here = f"{base}/topics/{topic}"
    query = f"topic={topic}&partition_count=2&replication_factor=3&config.retention.ms=86400000"
    preview = browser.get(f"{base}/topics-new?{query}")
    assert preview.status == 200, preview.text
    assert "The cluster would create this" in preview.text
    assert topic not in admin.list_topics()
    fields = {"topic": topic, "partition_count": "2", "replication_factor": "3", "config.retention.ms": "86400000"}
    done(sent(browser, f"{base}/topics-new", **fields), here)
    until(lambda: browser.get(here).status == 200, "the topic is known to each broker")
    again = sent(browser, f"{base}/topics-new", **fields)
    assert (again.status, "TOPIC_ALREADY_EXISTS" in again.text, f'value="{topic}"' in again.text) == (409, True, True)

    with Producer(place.cluster.bootstrap_servers) as producer:
        for number in range(10):
            producer.send(topic, b"%d" % number, partition=number % 2).result(30)
    shown = view_of(browser, here)
    shape = shown["topic"]["value"]["shape"]
    assert (shape["partitions"], shape["brokers"], shape["spread_percent"], shape["skew_percent"]) == (2, 3, 100, 0)
    assert (shown["records"]["value"]["records"], shown["topic"]["value"]["configs"]) == (
        10,
        {"retention.ms": "86400000"},
    )
    assert shown["size_bytes"] > 0
    assert "(1 day)" in browser.get(here).text
    listed = view_of(browser, f"{base}/topics?q={topic}")
    assert (listed["records"]["value"][topic]["records"], listed["sizes"]["value"][topic] > 0) == (10, True)

    grown = browser.get(f"{here}/partitions?count=5")
    assert ("Keys change their partitions" in grown.text, "3 new partitions, 2 to 4" in grown.text) == (True, True)
    assert "INVALID_PARTITIONS" in browser.get(f"{here}/partitions?count=1").text
    stale = sent(browser, f"{here}/partitions", count="5", seen="4")
    assert (stale.status, "it had 4 partitions, and has 2 now" in stale.text) == (409, True)
    done(sent(browser, f"{here}/partitions", count="5", seen="2"), here)

    purge = browser.get(f"{here}/delete-records?partition=0&keep_from=3")
    assert 'value="0:3"' in purge.text
    done(sent(browser, f"{here}/delete-records", offsets="0:3"), here)
    offsets = view_of(browser, f"{here}/delete-records?partition=")["preview"]["value"]["partitions"]
    assert [(each["start"], each["end"]) for each in offsets] == [(3, 5), (0, 5), (0, 0), (0, 0), (0, 0)]

    unsure = sent(browser, f"{here}/delete", confirm="other")
    assert (unsure.status, "nothing was deleted" in unsure.text) == (400, True)
    done(sent(browser, f"{here}/delete", confirm=topic), f"{base}/topics")
    until(lambda: topic not in admin.list_topics(), "each broker knows that the topic is deleted")
    assert "is marked for deletion" in browser.get(f"{base}/topics").text


def test_a_config_is_set_and_reset_unless_somebody_else_was_there(who: tuple[str, Browser], admin: Admin) -> None:
    name, browser = who
    topic = f"configs-{name}"
    admin.create_topic(topic, 1, 1)
    one = f"/clusters/{name}/topics/{topic}/configs/retention.ms"
    until(lambda: browser.get(one).status == 200, "the topic is known to each broker")
    row = view_of(browser, one)["config"]["value"]["row"]
    assert (row["value"], row["own"], row["source"]) == ("604800000", False, "default")
    done(sent(browser, one, value="86400000", seen="604800000", seen_own="false"), one.rpartition("/")[0])
    until(lambda: "(1 day)" in browser.get(one).text, "the config holds")

    admin.alter_topic_configs(topic, {"retention.ms": "1000"})
    until(lambda: view_of(browser, one)["config"]["value"]["row"]["value"] == "1000", "the config holds")
    late = sent(browser, one, value="2000", seen="86400000", seen_own="true")
    assert (late.status, "it was &#39;86400000&#39; (set here), and is &#39;1000&#39;" in late.text) == (409, True)
    wrong = sent(browser, one, value="soon")
    assert (wrong.status, "INVALID_CONFIG" in wrong.text, 'value="soon"' in wrong.text) == (400, True, True)
    done(sent(browser, one, reset="true", seen="1000", seen_own="true"), one.rpartition("/")[0])
    until(lambda: not view_of(browser, one)["config"]["value"]["row"]["own"], "the config is reset")
    missing = browser.get(f"/clusters/{name}/topics/{topic}/configs/colour")
    assert (missing.status, "has no config" in missing.text) == (400, True)


def test_brokers_have_configs_of_their_own_and_of_all(who: tuple[str, Browser]) -> None:
    name, browser = who
    key = "log.segment.delete.delay.ms"
    of_all, of_one = (f"/clusters/{name}/brokers/{each}/configs" for each in ("all", "2"))
    done(sent(browser, f"{of_all}/{key}", value="3"), of_all)
    until(lambda: view_of(browser, f"{of_one}/{key}")["config"]["value"]["row"]["value"] == "3", "broker 2 has it")
    row = view_of(browser, f"{of_one}/{key}")["config"]["value"]["row"]
    assert (row["own"], row["source"]) == (False, "all brokers")
    done(sent(browser, f"{of_one}/{key}", value="2", seen="3", seen_own="false"), of_one)
    until(lambda: view_of(browser, f"{of_one}/{key}")["config"]["value"]["row"]["own"], "broker 2 has its own")
    row = view_of(browser, f"{of_one}/{key}")["config"]["value"]["row"]
    assert (row["value"], row["after_reset"]) == ("2", "3")
    for path in (of_one, of_all):
        done(sent(browser, f"{path}/{key}", reset="true"), path)
    until(lambda: view_of(browser, f"{of_one}/{key}")["config"]["value"]["row"]["source"] == "default", "both are gone")
    assert "needs a restart" in browser.get(f"{of_one}?q=node.id").text
    fixed = sent(browser, f"/clusters/{name}/brokers/2/configs/{key}", value="x")
    assert (fixed.status, "INVALID_CONFIG" in fixed.text) == (400, True)
    assert browser.get(f"/clusters/{name}/brokers/9/configs").status == 502
    assert "is no broker" in browser.get(f"/clusters/{name}/brokers/x/configs").text


def test_before_a_topic_is_deleted_the_page_shows_what_hangs_on_it(who: tuple[str, Browser], admin: Admin) -> None:
    name, browser = who
    topic = f"used-{name}"
    admin.create_topic(topic, 2, 1)
    until_committed(admin, f"readers-{name}", {TopicPartition(topic, 0): 0})
    admin.create_acls([entry(topic, Operation.READ)])
    path = f"/clusters/{name}/topics/{topic}/delete"
    until(lambda: browser.get(path).status == 200, "the topic is known to each broker")

    def groups() -> list[tuple[str, int]]:
        found = view_of(browser, path)["groups"]["value"] or {"groups": []}
        return [(each["group"], each["committed"]) for each in found["groups"]]

    # At load, coordinators may not answer within the time of the page, which says so.
    until(lambda: groups() == [(f"readers-{name}", 1)], lambda: view_of(browser, path))
    shown = view_of(browser, path)
    acls = [(each["principal"], each["pattern"], each["is_own"]) for each in shown["acls"]["value"]]
    assert acls[:2] == [("User:alice", f"literal {topic}", True), ("User:operator", "literal *", False)]
    assert "hold for the next topic of this name" in browser.get(path).text
    other = sent(browser, path, confirm=topic, seen="AAAAAAAAAAAAAAAAAAAAAA")
    assert (other.status, "created anew" in other.text) == (409, True)
    internal = f"/clusters/{name}/topics/__consumer_offsets/delete"
    assert "all groups with their committed offsets" in browser.get(internal).text
    refused = sent(browser, internal, confirm="__consumer_offsets")
    assert (refused.status, "tick the box" in refused.text) == (400, True)


def test_who_may_not_change_anything_is_told_so(place: ConsoleCluster, admin: Admin) -> None:
    if TOPIC not in admin.list_topics():
        admin.create_topic(TOPIC, 1, 3)
    viewer, base = place.browsers["viewer"], "/clusters/prod"
    here = f"{base}/topics/{TOPIC}"
    until(lambda: viewer.get(here).status == 200, "the topic is known to each broker")
    token = token_in(viewer.get(f"{here}/configs/retention.ms").text)
    refusals = {
        f"{base}/topics-new": {"topic": "mine"},
        f"{here}/partitions": {"count": "9"},
        f"{here}/configs/retention.ms": {"value": "1"},
        f"{here}/delete-records": {"offsets": "0:0"},
        f"{here}/delete": {"confirm": TOPIC},
        f"{base}/brokers/1/configs/log.segment.delete.delay.ms": {"value": "2"},
    }
    for path, fields in refusals.items():
        answer = viewer.post(path, {"token": token, **fields})
        assert (answer.status, "ask an administrator for an ACL" in answer.text) == (403, True), path
        assert viewer.post(path, {"token": "guessed", **fields}).status == 403
        assert place.browsers["nobody"].post(path, fields).status == 303
    assert len(admin.describe_topics([TOPIC])[0].metadata.partitions) == 1


def is_done(change: Callable[[], Mapping[TopicPartition, object]]) -> bool:
    return set(change().values()) == {None}


@contextmanager
def paused(place: ConsoleCluster, admin: Admin) -> Iterator[int]:
    """Pause a broker that is not the active controller."""
    broker = min({1, 2, 3} - {admin.describe_quorum().leader_id})
    node = place.cluster.local.nodes[broker]
    node.pause()
    try:
        yield broker
    finally:
        node.resume()


@pytest.mark.slow
def test_a_broker_that_does_not_answer_is_named_and_what_the_others_know_is_shown(
    place: ConsoleCluster, admin: Admin
) -> None:
    ids = [f"watched-{each}" for each in range(9)]
    admin.create_topic("seen", 3, 3)
    for each in ids:
        commit = partial(admin.alter_consumer_group_offsets, each, {TopicPartition("seen", 0): 0})
        until(partial(is_done, commit), "the topic is known to each broker")
        with Producer(place.cluster.bootstrap_servers, transactional_id=each) as producer:
            producer.begin_transaction()
            producer.send("seen", b"1", partition=0).result(30)
            producer.commit_transaction()
    coordinators = {each.group_id: each.coordinator.node_id for each in admin.describe_consumer_groups(ids)}
    of_transactions = {each.transactional_id: each.coordinator_id for each in admin.list_transactions()}
    with paused(place, admin) as silent:
        for name in ("prod", "open"):
            base, browser = f"/clusters/{name}", place.administrator(name)
            groups = view_of(browser, f"{base}/groups?q=watched&sort=lag")
            shown = {each["group"] for each in groups["groups"]["value"]["rows"]}
            assert shown == {each for each in ids if coordinators[each] != silent}
            assert f"broker {silent} did not answer" in groups["missing"]
            assert groups["lags"]["value"].keys() == shown, groups["lags"]
            found = view_of(browser, f"{base}/transactions?q=watched")
            shown = {each["transactional_id"] for each in found["transactions"]["value"]["rows"]}
            assert shown == {each for each in ids if of_transactions[each] != silent}
            assert f"broker {silent} did not answer" in found["missing"]
            topics = view_of(browser, f"{base}/topics?q=seen")
            assert (topics["silent"], topics["sizes"]["value"]["seen"] > 0) == ([silent], True)
            assert topics["topics"]["value"]["rows"][0]["shape"]["replicas_away"] == 3
            topic = view_of(browser, f"{base}/topics/seen")
            assert (topic["silent"], len(topic["sizes"]["value"])) == ([silent], 3)
            doomed = view_of(browser, f"{base}/topics/seen/delete")
            assert f"broker {silent} did not answer" in doomed["groups"]["value"]["missing"]
            assert doomed["topic"]["value"]["silent"] == [silent]
            assert view_of(browser, f"{base}/acls/of?principal=User:viewer")["rights"]["value"]["is_authorized"]
