"""Records in the console, at a real cluster by both protocols: browsed, filtered, one by one, and live."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import urlencode

import pytest

from kraft.client import Admin, NewTopic, Producer
from tests.support.console_api import assert_fits
from tests.support.console_browser import Browser, console
from tests.support.console_cluster import cluster_of_users, console_settings, everybody, rights
from tests.support.console_pages import without_own_scripts
from tests.support.kafka.login_cluster import LoginCluster
from tests.support.schema_registry import SchemaRegistry, schema_registry
from tests.support.waiting import until

SCRIPT: Final = "<script>alert(1)</script>"
ORDERS: Final = 90
BOMB_BYTES: Final = 15 << 20
LATE: Final = ("nothing came from partition", "its time is over", "not known in time")
"""Words of a page that lacks something because brokers were too slow."""

RECORDS: Final = "/clusters/{cluster}/topics/{topic}/records"


@pytest.fixture(name="cluster", scope="module")
def _cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoginCluster]:
    with cluster_of_users(tmp_path_factory.mktemp("cluster"), 1, rights("orders")) as cluster:
        written(cluster.bootstrap_servers)
        yield cluster


def written(servers: str) -> None:
    with Admin(servers) as admin:
        for topic, partitions in (("orders", 3), ("odd", 1), ("big", 1), ("paid", 1), ("live", 2)):
            admin.create_topics([NewTopic(topic=topic, partitions=partitions, replication_factor=1)])
    with Producer(servers) as producer:
        for number in range(ORDERS):
            order = {"total": number, "country": "NO" if number % 2 else "SE", "card": f"secret-{number}"}
            place: dict[str, Any] = {"partition": number % 3, "timestamp_ms": 1_700_000_000_000 + number}
            headers = [("trace", b"t-%d" % number)]
            producer.send("orders", json.dumps(order).encode(), key=b"order-%d" % number, headers=headers, **place)
        script = SCRIPT.encode()
        for value, key in ((script, script), (None, b"gone"), (b"\xff\xfe\x00", b"\xff"), (b"[" * 5_000, None)):
            producer.send("odd", value, key=key, headers=[(SCRIPT, script)])
    with Producer(servers, compression_type="zstd", max_request_size=20 << 20, batch_size=1) as producer:
        producer.send("big", b'"%s"' % (b"x" * BOMB_BYTES)).result(30)
        producer.send("big", b"small").result(30)
    for commits in (True, False):
        with Producer(servers, transactional_id=f"commits-{commits}") as producer:
            producer.begin_transaction()
            producer.send("paid", str(commits).encode()).result(30)
            producer.commit_transaction() if commits else producer.abort_transaction()


@pytest.fixture(name="registry", scope="module")
def _registry() -> Iterator[SchemaRegistry]:
    with schema_registry() as served:
        yield served


@pytest.fixture(name="browsers", scope="module")
def _browsers(
    cluster: LoginCluster, registry: SchemaRegistry, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Browser]]:
    settings = console_settings(cluster)
    settings |= {
        "clusters": "prod,open,masked",
        "cluster.prod.records.view": "on",
        "cluster.masked.bootstrap.servers": cluster.bootstrap_servers,
        "cluster.masked.records.view": "on",
        "cluster.masked.schema.registry.url": registry.url,
        "cluster.masked.mask.cards.topics": "*",
        "cluster.masked.mask.cards.fields": "card",
    }
    with console(tmp_path_factory.mktemp("console"), settings) as port:
        yield everybody(port)


@pytest.fixture(name="root", params=["prod", "open"])
def _root(request: pytest.FixtureRequest, browsers: dict[str, Browser]) -> Reads:
    """The administrator by Kafka's protocol, and anybody where the cluster is open, by gRPC."""
    return Reads(browsers["root"], request.param)


class Reads:
    """Reads by the API, and checks that it is what the API's description says."""

    def __init__(self, browser: Browser, cluster: str) -> None:
        self.browser = browser
        self.base = f"/clusters/{cluster}/topics"

    def page(self, topic: str, **fields: str) -> dict[str, Any]:
        path = f"{self.base}/{topic}/records?{urlencode(fields)}"
        answer = self.browser.get(f"/api{path}")
        assert_fits("/api" + RECORDS, "get", answer)
        html = self.browser.get(path)
        assert html.status == answer.status
        assert "<script" not in without_own_scripts(html.text)
        found: dict[str, Any] = json.loads(answer.text)["records"]
        return found

    def found(self, topic: str, **fields: str) -> dict[str, Any]:
        """Return what a page shows that lacks nothing: where brokers were too slow, it says so, and is read again."""
        found: dict[str, Any] = {}

        def is_whole() -> bool:
            page = self.page(topic, **fields)
            assert page["problem"] == ""
            found.update(page["value"])
            said = [*found["notes"], *(tag for row in found["rows"] for tag in row["tags"])]
            return not any(words in each for each in said for words in LATE)

        until(is_whole, lambda: found)
        return found

    def rows(self, topic: str, **fields: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.found(topic, **fields)["rows"]
        return rows

    def offsets(self, topic: str, **fields: str) -> list[tuple[int, int]]:
        return [(each["partition"], each["offset"]) for each in self.rows(topic, **fields)]

    def one(self, topic: str, partition: int, offset: int) -> dict[str, Any]:
        path = f"{self.base}/{topic}/records/{partition}/{offset}"
        answer = self.browser.get(f"/api{path}")
        assert_fits("/api" + RECORDS + "/{partition}/{offset}", "get", answer)
        assert "<script" not in without_own_scripts(self.browser.get(path).text)
        found: dict[str, Any] = json.loads(answer.text)["record"]
        return found


# --- pages -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("begin", ["newest", "beginning"])
def test_pages_that_go_on_show_each_record_once(root: Reads, begin: str) -> None:
    fields, seen = {"from": begin, "rows": "25"}, []
    for _ in range(10):
        found = root.found("orders", **fields)
        seen += [json.loads(each["value"]["text"])["total"] for each in found["rows"]]
        if not (fields := found["more"]):
            break
    assert seen == sorted(range(ORDERS), reverse=begin == "newest")


def test_records_are_found_by_offset_time_key_and_partition(root: Reads) -> None:
    assert root.offsets("orders", **{"from": "offset", "offset": "28", "partition": "1"}) == [(1, 28), (1, 29)]
    by_time = root.rows("orders", **{"from": "time", "time": "1700000000087"})
    assert [each["key"]["text"] for each in by_time] == ["order-87", "order-88", "order-89"]
    assert by_time[0]["time"] == "2023-11-14T22:13:20.087Z"
    found = root.found("orders", key="order-31", partition="0-1")
    assert [(each["offset"], each["headers"][0]["value"]["text"]) for each in found["rows"]] == [(10, "t-31")]
    assert any("Kafka's default partitioner puts this key into partition" in each for each in found["notes"])


def test_records_are_filtered_and_the_page_says_how_many_it_looked_at(root: Reads) -> None:
    found = root.found("orders", filter='value.total > 80 and value.country == "NO" or headers.trace == "t-2"')
    assert [json.loads(each["value"]["text"])["total"] for each in found["rows"]] == [89, 87, 85, 83, 81, 2]
    assert (found["looked_at"], found["more"]) == (ORDERS, {})
    assert root.offsets("orders", text="SECRET-44") == [(2, 14)]
    nothing = root.found("orders", filter="value.total > 1000")
    assert (nothing["rows"], nothing["looked_at"]) == ([], ORDERS)


@pytest.mark.parametrize(
    ("topic", "fields", "code", "sentence"),
    [
        ("missing", {}, "UNKNOWN_TOPIC_OR_PARTITION", "missing"),
        ("orders", {"partition": "7"}, "INVALID_REQUEST", "there is no partition 7: the topic has 0 to 2"),
        ("orders", {"filter": "total > 5"}, "INVALID_REQUEST", "expected one of key, value"),
        ("orders", {"from": "time", "time": "noon"}, "INVALID_REQUEST", "give a time in UTC"),
    ],
)
def test_what_cannot_be_read_is_a_sentence(
    root: Reads, topic: str, fields: dict[str, str], code: str, sentence: str
) -> None:
    found = root.page(topic, **fields)
    assert (found["code"], sentence in found["problem"]) == (code, True), found


# --- odd records -----------------------------------------------------------------------------------------------------


def test_odd_records_are_text_or_a_sentence(root: Reads) -> None:
    script, tombstone, broken, deep = root.rows("odd", **{"from": "beginning"})
    assert (script["value"]["text"], script["headers"][0]["name"]) == (SCRIPT, SCRIPT)
    assert (tombstone["tags"], tombstone["value"]["format"]) == (["tombstone"], "null")
    assert (broken["value"]["format"], broken["value"]["text"]) == ("hex", "ff fe 00")
    assert (deep["value"]["format"], deep["value"]["cut"]) == ("text", True)
    for offset in range(4):
        assert root.one("odd", 0, offset)["problem"] == ""
    missing = root.one("odd", 0, 99)
    assert missing["code"] == "OFFSET_OUT_OF_RANGE"
    assert "partition 0 holds offsets 0 to 4" in missing["problem"]


@pytest.mark.slow
def test_a_record_of_15_mib_is_cut(root: Reads) -> None:
    small, big = root.rows("big")
    assert small["value"]["text"] == "small"
    assert (big["value"]["cut"], big["value"]["size_bytes"], len(big["value"]["text"])) == (True, BOMB_BYTES + 2, 400)
    whole = root.one("big", 0, 0)["value"]["record"]["value"]
    assert (whole["cut"], len(whole["text"])) == (True, 256 << 10)
    assert "1.0 MiB" in whole["problem"]


@pytest.mark.slow
def test_transactions_are_committed_or_said_to_be_aborted(root: Reads) -> None:
    committed = root.found("paid")
    assert [each["value"]["text"] for each in committed["rows"]] == ["True"]
    assert "1 record of aborted transactions left out: choose all to see them." in committed["notes"]
    every = root.rows("paid", isolation="all", **{"from": "beginning"})
    assert [each["tags"] for each in every] == [
        ["transaction", "committed"],
        ["commit marker"],
        ["transaction", "aborted"],
        ["abort marker"],
    ]

    def tags() -> list[str]:
        return list(root.one("paid", 0, 2)["value"]["record"]["tags"])

    until(lambda: tags() == ["transaction", "aborted"], tags)


# --- who may ---------------------------------------------------------------------------------------------------------


def test_brokers_and_the_file_decide_who_sees_what(browsers: dict[str, Browser]) -> None:
    refused = Reads(browsers["viewer"], "prod").page("orders")
    assert (refused["code"], "you may not see this" in refused["problem"]) == ("TOPIC_AUTHORIZATION_FAILED", True)
    masked = Reads(browsers["nobody"], "masked")
    found = masked.found("orders", filter="value.total == 44")
    assert found["is_masked"]
    assert "secret-44" not in json.dumps(found)
    assert masked.rows("orders", filter='value.card == "secret-44"') == []
    assert masked.rows("orders", text="secret-44") == []
    assert "secret-44" not in json.dumps(masked.one("orders", 2, 14))


@pytest.mark.slow
def test_avro_of_a_registry_is_decoded_filtered_and_masked(
    cluster: LoginCluster, registry: SchemaRegistry, browsers: dict[str, Browser]
) -> None:
    fields = [{"name": "total", "type": "long"}, {"name": "card", "type": "string"}]
    registry.add(7, json.dumps({"type": "record", "name": "Payment", "fields": fields}))
    with Admin(cluster.bootstrap_servers) as admin:
        admin.create_topic("typed", 1, 1)
    with Producer(cluster.bootstrap_servers) as producer:
        for schema_id, text in ((7, b"\x54\x0csecret"), (8, b"\x54\x0csecret"), (7, b"\x54")):
            producer.send("typed", b"\0" + schema_id.to_bytes(4, "big") + text).result(30)
    masked = Reads(browsers["nobody"], "masked")
    (found,) = masked.rows("typed", filter="value.total == 42")
    assert (found["value"]["format"], found["value"]["text"]) == (
        "avro",
        '{"total":42,"card":"\u2022\u2022\u2022\u2022"}',
    )
    for fields_of_query in ({}, {"value_format": "hex"}, {"value_format": "text"}, {"text": "secret"}):
        page = masked.found("typed", **fields_of_query)
        assert all(each["value"]["size_bytes"] is None for each in page["rows"])
        assert not any(each in json.dumps(page["rows"]) for each in ("secret", "73 65 63"))
    assert [each["value"]["format"] for each in masked.rows("typed")].count("hidden") == 2


@pytest.mark.slow
def test_reading_leaves_no_group(cluster: LoginCluster, root: Reads) -> None:
    root.rows("orders")
    with Admin(cluster.bootstrap_servers) as admin:
        assert admin.list_groups() == []


# --- live ------------------------------------------------------------------------------------------------------------


class Events:
    """Server-sent events, as a browser reads them."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self._response = response

    def turn(self) -> dict[str, Any]:
        """Return the next turn. Before it, a broker may have been too slow, which is told and tried again."""
        while (event := self.next())[0] == "problem":
            pass
        name, found = event
        assert name == "turn", found
        turn: dict[str, Any] = found
        return turn

    def next(self) -> tuple[str, Any]:
        name = ""
        for line in iter(self._response.readline, b""):
            if line.startswith(b"event: "):
                name = line[7:].decode().strip()
            elif line.startswith(b"data: "):
                return name, json.loads(line[6:])
        raise EOFError("the stream has ended")

    def rows(self) -> list[dict[str, Any]]:
        """Return the records of the next turn that has some."""
        while not (found := self.turn())["rows"]:
            pass
        rows: list[dict[str, Any]] = found["rows"]
        return rows


@contextmanager
def tail(reads: Reads, topic: str = "live", **fields: str) -> Iterator[Events]:
    browser = reads.browser
    connection = http.client.HTTPConnection("127.0.0.1", browser.port, timeout=20)
    try:
        cookies = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
        headers = {"Host": f"localhost:{browser.port}", "Cookie": cookies}
        connection.request("GET", f"{reads.base}/{topic}/tail/events?{urlencode(fields)}", headers=headers)
        response = connection.getresponse()
        assert response.status == 200
        yield Events(response)
    finally:
        connection.close()


def sent(servers: str, values: list[bytes], partition: int = 0) -> None:
    with Producer(servers) as producer:
        futures: list[Future[Any]] = [producer.send("live", each, partition=partition) for each in values]
        for each in futures:
            each.result(30)


def test_the_tail_shows_what_comes_skips_a_flood_and_resumes(cluster: LoginCluster, root: Reads) -> None:
    with tail(root) as events:
        at = events.turn()["at"]
        sent(cluster.bootstrap_servers, [SCRIPT.encode()])
        assert [each["value"]["text"] for each in events.rows()] == [SCRIPT]
        sent(cluster.bootstrap_servers, [b"%d" % each for each in range(2_000)], partition=1)
        shown = skipped = 0
        while shown + skipped < 2_000:
            turn = events.turn()
            assert len(turn["rows"]) <= 25
            shown, skipped = shown + len(turn["rows"]), skipped + turn["skipped"]
        assert shown + skipped == 2_000
        assert skipped > 1_500
    with tail(root, at=at, partition="0") as events:
        assert [each["value"]["text"] for each in events.rows()] == [SCRIPT]


@pytest.mark.parametrize("again", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_the_tail_ends_with_its_topic(cluster: LoginCluster, root: Reads, again: bool) -> None:
    """A topic that is created again under the name is another one."""
    with Admin(cluster.bootstrap_servers) as admin, tail(root, "brief") as events:
        admin.create_topic("brief", 1, 1)
        while events.next()[0] != "turn":
            pass
        admin.delete_topics(["brief"])
        if again:
            admin.create_topic("brief", 1, 1)
        while (ended := events.next())[0] == "turn":
            pass
        said = ("ended", "Topic brief does not exist any more: it was deleted.")
        assert ended[0] == "ended" if again else ended == said
        with pytest.raises(EOFError):
            events.next()
        if again:
            admin.delete_topics(["brief"])


@pytest.mark.slow
def test_the_tail_is_filtered_and_ends_with_its_reader(cluster: LoginCluster, root: Reads) -> None:
    with tail(root, filter='value contains "7"') as events:
        events.turn()
        sent(cluster.bootstrap_servers, [b"x%d" % each for each in range(20)])
        assert [each["value"]["text"] for each in events.rows()] == ["x7", "x17"]
    # A session may have ten at a time: those that ended do not count.
    for _ in range(12):
        with tail(root) as events:
            until(lambda: bool(events.turn()), "the tail has begun")
