"""Groups and transactions in the console, on a real node, by gRPC and by Kafka's protocol."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import pytest

from kraft.client import Admin, Consumer, Producer, TopicPartition
from kraft.testing import Cluster
from tests.support.command_line import run_kraft
from tests.support.console_browser import Answer, Browser, console, token_in
from tests.support.console_cluster import sent
from tests.support.kafka.transactions.hanging import hang
from tests.support.waiting import until, until_committed

TOPIC: Final = "orders"
PLACES: Final = [TopicPartition(TOPIC, number) for number in range(2)]
PROTOCOLS: Final = ("grpc", "kafka")
OVERRIDES: Final = {
    "group.lag.look.interval.ms": "200",
    "group.initial.rebalance.delay.ms": "0",
    "transaction.partition.verification.enable": "false",
    "transaction.state.log.num.partitions": "1",
}


@pytest.fixture(name="cluster", scope="module")
def _cluster() -> Iterator[Cluster]:
    """One node with two topics of ten records in each partition, and a group that has read three of each."""
    with Cluster(1, overrides=OVERRIDES) as cluster:
        with Admin(cluster.bootstrap_servers) as admin, Producer(cluster.bootstrap_servers) as producer:
            for topic in (TOPIC, "hung"):
                admin.create_topic(topic, 2, 1)
            sends = [producer.send(TOPIC, b"%d" % number, partition=number % 2) for number in range(20)]
            for each in sends:
                each.result(30)
        yield cluster


@pytest.fixture(name="admin", scope="module")
def _admin(cluster: Cluster) -> Iterator[Admin]:
    with Admin(cluster.bootstrap_servers) as admin:
        yield admin


@pytest.fixture(name="browser", scope="module")
def _browser(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    settings = {
        "clusters": "grpc,kafka",
        "cluster.grpc.bootstrap.servers": cluster.bootstrap_servers,
        "cluster.kafka.bootstrap.servers": cluster.kafka_bootstrap_servers,
        "cluster.kafka.wire.protocol": "kafka",
    }
    with console(tmp_path_factory.mktemp("console"), settings) as port:
        yield Browser(port)


def asked(browser: Browser, path: str, status: int = 200) -> Any:
    answer = browser.get(f"/api/clusters/{path}")
    assert answer.status == status, answer.text
    return json.loads(answer.text)


def posted(browser: Browser, path: str, **fields: str) -> Answer:
    """Send a form with the token of another page: a page that says why something cannot be done has none."""
    page = browser.get(f"/clusters/grpc/group-reset/new?target=latest&topic={TOPIC}")
    return browser.post(path, {"token": token_in(page.text), **fields})


def commit(admin: Admin, group: str, offset: int) -> None:
    until_committed(admin, group, dict.fromkeys(PLACES, offset))


def offsets(admin: Admin, group: str) -> list[int]:
    return [each.offset for _, each in sorted(admin.list_consumer_group_offsets(group).items())]


def test_to_look_for_a_group_or_a_transaction_creates_no_topic(browser: Browser, cluster: Cluster) -> None:
    for protocol in PROTOCOLS:
        for page, panel, code in (
            ("groups/nobody", "group", "GROUP_ID_NOT_FOUND"),
            ("transactions/nobody", "transaction", "TRANSACTIONAL_ID_NOT_FOUND"),
        ):
            assert asked(browser, f"{protocol}/{page}", 404)[panel]["code"] == code
        assert asked(browser, f"{protocol}/groups")["members"] == {"value": {}, "problem": "", "code": ""}
    for command in (["groups", "describe"], ["groups", "delete"], ["transactions", "describe"]):
        missing = run_kraft(cluster, *command, "nobody")
        assert "'nobody'" in missing.stdout + missing.stderr, missing
    with Admin(cluster.bootstrap_servers) as admin:
        assert sorted(admin.list_topics()) == ["hung", TOPIC]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_lag_of_groups_is_told_in_records_and_by_partition(browser: Browser, admin: Admin, protocol: str) -> None:
    group = f"read-{protocol}"
    commit(admin, group, 3)

    def lag() -> Any:
        return asked(browser, f"{protocol}/groups?q={group}")["lags"]["value"][group]

    # Brokers look again and again.
    until(lambda: lag()["records"] == 14, lambda: str(lag()))
    listed = asked(browser, f"{protocol}/groups?q={group}")
    assert (listed["members"]["value"], listed["groups"]["value"]["total"] >= 1) == ({group: 0}, True)
    rows = asked(browser, f"{protocol}/groups/{group}")["lags"]["value"]["rows"]
    assert [(each["topic"], each["partition"], each["committed"], each["end"], each["lag"]) for each in rows] == [
        (TOPIC, 0, 3, 10, 7),
        (TOPIC, 1, 3, 10, 7),
    ]
    # By Kafka's protocol the console's own samples say how it does: the page is what it looks at.
    until(lambda: asked(browser, f"{protocol}/groups/{group}")["lags"]["value"]["rows"][0]["status"] == "OK", "a state")
    behind = asked(browser, f"{protocol}/groups/{group}")["total"]["value"]
    assert (behind["records"], behind["is_at_least"]) == (14, True)
    until(lambda: asked(browser, f"{protocol}/group-history/{group}")["series"]["value"]["topics"], "a sample")
    (line,) = asked(browser, f"{protocol}/group-history/{group}")["series"]["value"]["topics"]
    assert (line["topic"], line["committed"][0], line["end"][0], line["lag"][0]) == (TOPIC, 6, 20, 14)
    assert "Log end" in browser.get(f"/clusters/{protocol}/groups/{group}").text
    page = browser.get(f"/clusters/{protocol}/group-history/{group}").text
    assert 'data-chart="lag"' in page
    assert '<td class="n">14</td>' in page


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_offsets_are_reset_to_what_the_preview_showed(browser: Browser, admin: Admin, protocol: str) -> None:
    group = f"reset-{protocol}"
    commit(admin, group, 6)
    path = f"/clusters/{protocol}/group-reset/{group}"
    seen = asked(browser, f"{protocol}/group-reset/{group}?target=shift&value=-2")["preview"]["value"]
    assert [(each["now"], each["then"], each["again"]) for each in seen["rows"]] == [(6, 4, 2), (6, 4, 2)]
    assert "4 records would be read again" in browser.get(f"{path}?target=shift&value=-2").text
    answer = sent(browser, f"{path}?target=shift&value=-2", target="shift", value="-2", plan=seen["plan"])
    assert (answer.status, answer.headers["location"]) == (303, f"/clusters/{protocol}/groups/{group}")
    assert offsets(admin, group) == [4, 4]
    # Somebody else was there meanwhile: the same plan is not written again.
    stale = posted(browser, path, target="shift", value="-2", plan=seen["plan"])
    assert (stale.status, "orders-0 stands at 4, and stood at 6" in stale.text) == (409, True)
    latest = asked(browser, f"{protocol}/group-reset/{group}?target=latest&topic=orders&partitions=1")
    assert [(each["partition"], each["skipped"]) for each in latest["preview"]["value"]["rows"]] == [(1, 6)]
    wrong = asked(browser, f"{protocol}/group-reset/{group}?target=offset&value=x", 400)
    assert "whole number" in wrong["preview"]["problem"]
    assert offsets(admin, group) == [4, 4]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_group_with_members_is_not_reset_and_a_static_member_is_removed(
    browser: Browser, cluster: Cluster, admin: Admin, protocol: str
) -> None:
    group = f"live-{protocol}"
    servers = cluster.bootstrap_servers
    settings: dict[str, Any] = {"group_id": group, "group_instance_id": "w-1", "client_id": "shop"}
    with Consumer(servers, **settings, group_protocol="classic", auto_offset_reset="earliest") as consumer:
        consumer.subscribe([TOPIC])
        until(lambda: bool(list(consumer.poll(500))), "records are read")
        consumer.commit()
        shown = asked(browser, f"{protocol}/groups/{group}")
        (member,) = shown["group"]["value"]["members"]
        assert (member["instance"], member["client"], member["assignment"]) == ("w-1", "shop", "orders: 0-1")
        assert [each["owner"] for each in shown["lags"]["value"]["rows"]] == ["w-1", "w-1"]
        blocked = browser.get(f"/clusters/{protocol}/group-reset/{group}?target=earliest")
        assert "stop its consumers first" in blocked.text
        before = offsets(admin, group)
        plan = json.dumps({TOPIC: [[each.partition, before[each.partition], 0] for each in PLACES]})
        answer = sent(browser, f"/clusters/{protocol}/group-offsets/{group}", topic=TOPIC, confirm=TOPIC)
        assert (answer.status, "subscribed" in answer.text) == (409, True)
        assert posted(browser, f"/clusters/{protocol}/group-reset/{group}", plan=plan).status == 409
        none = sent(browser, f"/clusters/{protocol}/group-members/{group}")
        assert (none.status, "Choose the static members" in none.text) == (400, True)
        assert offsets(admin, group) == before
        assert sent(browser, f"/clusters/{protocol}/group-members/{group}", instance="w-1").status == 303
        again = posted(browser, f"/clusters/{protocol}/group-members/{group}", instance="w-1")
        assert (again.status, "no static member w-1" in again.text) == (409, True)
        (described,) = admin.describe_consumer_groups([group])
        assert described.members == ()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_offsets_and_groups_are_deleted_once_their_name_is_typed(browser: Browser, admin: Admin, protocol: str) -> None:
    group = f"gone/{protocol} #1"
    commit(admin, group, 1)
    end = f"gone%2F{protocol}%20%231"
    unconfirmed = sent(browser, f"/clusters/{protocol}/group-offsets/{end}", topic=TOPIC, confirm="order")
    assert (unconfirmed.status, offsets(admin, group)) == (400, [1, 1])
    assert sent(browser, f"/clusters/{protocol}/group-offsets/{end}", topic=TOPIC, confirm=TOPIC).status == 303
    assert offsets(admin, group) == []
    commit(admin, group, 1)
    assert "2 committed offsets of 1 topic" in browser.get(f"/clusters/{protocol}/group-delete/{end}").text
    assert sent(browser, f"/clusters/{protocol}/group-delete/{end}", confirm="gone").status == 400
    done = sent(browser, f"/clusters/{protocol}/group-delete/{end}", confirm=group)
    assert (done.status, done.headers["location"]) == (303, f"/clusters/{protocol}/groups")
    assert group not in [each.group_id for each in admin.list_groups()]
    assert browser.get(f"/clusters/{protocol}/groups/{end}").status == 404


def test_open_and_hanging_transactions_are_found_and_one_that_hangs_is_aborted(
    browser: Browser, cluster: Cluster
) -> None:
    hang(cluster, "hung", 4_711)
    with Producer(cluster.bootstrap_servers, transactional_id="paying") as producer:
        producer.begin_transaction()
        producer.send("hung", b"open", partition=1).result(30)
        for protocol in PROTOCOLS:
            listed = asked(browser, f"{protocol}/transactions?show=open")
            assert [each["transactional_id"] for each in listed["transactions"]["value"]["rows"]] == ["paying"]
            assert listed["begun"]["value"]["paying"]["partitions"] == 1
            one = asked(browser, f"{protocol}/transactions/paying")["transaction"]["value"]
            assert (one["state"], one["places"]) == ("Ongoing", ["hung-1"])
            (state,) = asked(browser, f"{protocol}/transaction-producers?topic=hung&partition=1")["producers"]["value"]
            assert state["start_offset"] == 0
            kept = asked(browser, f"{protocol}/transaction-abort?topic=hung&partition=1&start_offset=0")
            assert "does not hang" in kept["objection"]
            found = asked(browser, f"{protocol}/transaction-hanging?topic=hung&minutes=15")["found"]["value"]
            assert [(each["partition"], each["producer_id"]) for each in found["hanging"]] == [(0, 4_711)]
        producer.abort_transaction()
    missing = {"topic=none&partition=0": "there is no topic", "topic=hung&partition=7": "has partitions 0 to 1, not 7"}
    for query, said in missing.items():
        for protocol in PROTOCOLS:
            found = asked(browser, f"{protocol}/transaction-producers?{query}", 404)
            assert said in found["producers"]["problem"]
    path = "/clusters/grpc/transaction-abort?topic=hung&partition=0&start_offset=0"
    place = {"topic": "hung", "partition": "0", "start_offset": "0"}
    assert sent(browser, path, **place, confirm="hung").status == 400
    assert sent(browser, path, **place, confirm="hung-0").status == 303
    gone = browser.get(path)
    assert (gone.status, "nothing to abort" in gone.text) == (409, True)
    assert asked(browser, "kafka/transaction-hanging?topic=hung&minutes=15")["found"]["value"]["hanging"] == []
