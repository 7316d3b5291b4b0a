"""`kraft mirror` between two clusters of one node: one reached by gRPC, the other by Kafka's protocol."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from kraft.client import Admin, Codec, Consumer, ErrorCode, NewTopic, Producer, Refusal, TopicPartition
from kraft.client.aio import Consumer as AsyncConsumer
from kraft.local.free_ports import ReservedPorts
from kraft.model.access import Operation
from kraft.server.config.access_settings import STANDARD_AUTHORIZER
from kraft.testing import Cluster
from tests.support.acl_entries import entry
from tests.support.command_line import Running, run
from tests.support.mirrors import mirror_file, mirroring, topics_of, verified
from tests.support.waiting import until

KAFKA: Final[dict[str, Any]] = {"wire_protocol": "kafka"}
SAME_NAMES: Final = {"replication.policy.class": "IdentityReplicationPolicy"}

_SETTINGS: Final = {
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "super.users": "User:ANONYMOUS",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "2",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}


@pytest.fixture(scope="module")
def here() -> Iterator[str]:
    with Cluster(1, overrides=_SETTINGS) as running:
        yield running.bootstrap_servers


@pytest.fixture(scope="module")
def there() -> Iterator[str]:
    with Cluster(1, overrides=_SETTINGS) as running:
        yield running.kafka_bootstrap_servers


def file_of(path: Path, here: str, there: str, pairs: dict[str, dict[str, str]], **more: str) -> Path:
    clusters = {"A.bootstrap.servers": here, "B.bootstrap.servers": there, "B.wire.protocol": "kafka"}
    return mirror_file(path / "mirror.properties", clusters, pairs, **more)


def send(servers: str, topic: str, numbers: range, **settings: Any) -> None:
    with Producer(servers, compression_type="lz4", **settings) as producer:
        for number in numbers:
            producer.send(topic, b"%d" % number, key=b"%d" % (number % 100), headers=[("n", b"%d" % number)])


def until_mirrored(file: Path, topic: str, records: int) -> None:
    def is_there() -> bool:
        found = topics_of(file).get(topic, {"records": -1, "lag": -1})
        return bool(found["records"] >= records and found["lag"] == 0)

    until(is_there, lambda: topics_of(file))


def all_values(servers: str, topic: str, partitions: int, **settings: Any) -> list[bytes]:
    places = [TopicPartition(topic, each) for each in range(partitions)]
    with Consumer(servers, auto_offset_reset="earliest", isolation_level="read_committed", **settings) as consumer:
        ends = consumer.end_offsets(places)
        parts = [part for each in places for part in consumer.read_columns(each, 0, ends[each])]
        return [value or b"" for part in parts for value in part.columns.values]


def abort_one(servers: str, topic: str) -> None:
    with Producer(servers, transactional_id="aborting") as producer:
        producer.begin_transaction()
        producer.send(topic, b"aborted", partition=0)
        producer.flush()
        producer.abort_transaction()


def read_by_group(servers: str, group: str, topic: str, records: int, **settings: Any) -> list[bytes]:
    """Return what the group reads from where it is on until it has so many records, and commit that."""
    given = {"group_id": group, "auto_offset_reset": "earliest", "enable_auto_commit": False, **settings}
    given["isolation_level"] = "read_committed"
    read: list[bytes] = []
    with Consumer(servers, **given) as consumer:
        consumer.subscribe(topic)

        def has_enough() -> bool:
            read.extend(each.value or b"" for each in consumer.poll(500, max_records=100))
            return len(read) >= records

        until(has_enough, lambda: len(read))
        consumer.commit()
    return read


def has_topics(admin: Admin, topics: list[str]) -> bool:
    return set(topics) <= set(admin.list_topics())


def has_values(servers: str, topic: str, count: int, **settings: Any) -> bool:
    return len(all_values(servers, topic, 1, **settings)) == count


def output_of(worker: Running, words: str) -> str:
    """Return the worker's lines up to the one with these words."""
    lines = []
    for line in worker.stderr:
        lines.append(line.decode())
        if words in lines[-1]:
            return "".join(lines)
    raise AssertionError(f"no {words!r} in {''.join(lines)}")


def test_a_killed_worker_is_resumed_without_loss_and_a_group_goes_on_at_the_target(
    here: str, there: str, tmp_path: Path
) -> None:
    ports = ReservedPorts(1)
    metrics = f"127.0.0.1:{ports.ports[0]}"
    pair = {"A->B": {"topics": "orders*", "topics.exclude": ".*-tmp", **SAME_NAMES}}
    file = file_of(tmp_path, here, there, pair, **{"metrics.address": metrics})
    with Admin(here) as admin:
        admin.create_topics([NewTopic(topic="orders", partitions=2, configs={"retention.ms": "86400000"})])
        admin.create_topics([NewTopic(topic="orders-tmp", partitions=1), NewTopic(topic="others", partitions=1)])
    send(here, "orders", range(1_000))
    abort_one(here, "orders")
    read = read_by_group(here, "billing", "orders", 400)
    with mirroring(file, "one") as worker:
        until_mirrored(file, "orders", 1)
        send(here, "orders", range(1_000, 2_000))
        worker.process.kill()
    with Admin(here) as admin:
        admin.create_partitions("orders", 3)
    send(here, "orders", range(2_000, 3_000))
    ports.release()
    with mirroring(file, "one"):
        until_mirrored(file, "orders", 3_000)
        verdicts = verified(file)
        assert [(each["missing"], each["twice"], each["in_order"]) for each in verdicts] == [(0, 0, True)] * 3
        assert sum(each["compared"] for each in verdicts) == 3_000
        assert sorted(map(int, all_values(there, "orders", 3, **KAFKA))) == list(range(3_000))
        with Admin(there, **KAFKA) as admin:
            (described,) = admin.describe_topics(["orders"])
            assert described.configs["retention.ms"] == "86400000"
            assert not {"orders-tmp", "others"} & set(admin.list_topics())

            def committed() -> int:
                return sum(each.offset for each in admin.list_consumer_group_offsets("billing").values())

            until(lambda: committed() >= len(read), committed)
        with urllib.request.urlopen(f"http://{metrics}/metrics", timeout=10) as scraped:
            text = scraped.read().decode()
        assert 'kraft_mirror_lag_records{pair="A->B",topic="orders"} 0.0' in text
        read += read_by_group(there, "billing", "orders", 3_000 - len(read), **KAFKA)
        assert sorted(map(int, read)) == list(range(3_000)), "the group was behind by runs that are all kept"


async def test_batches_are_copied_with_their_codec(there: str) -> None:
    async with AsyncConsumer(there, auto_offset_reset="earliest", **KAFKA) as consumer:
        consumer.assign([TopicPartition("orders", 0)])
        batches = await consumer.poll_stored(10_000)
        assert {each.codec for each in batches if not each.is_control} == {Codec.LZ4}
        assert batches[0].records().headers[0][0][0] == "n"


@pytest.mark.slow
def test_the_way_back_is_refused_while_the_mirror_runs_and_continues_where_it_ended(
    here: str, there: str, tmp_path: Path
) -> None:
    forth = file_of(tmp_path, here, there, {"A->B": {"topics": "orders", **SAME_NAMES}})
    again = tmp_path / "again.properties"
    again.write_text(forth.read_text() + "name=again\n")
    (tmp_path / "back").mkdir()
    back = file_of(tmp_path / "back", here, there, {"B->A": {"topics": "orders", **SAME_NAMES}})
    with mirroring(forth, "one") as worker:
        output_of(worker, "worker copies this part")
        with mirroring(again, "one") as second:
            done = run("mirror", "start", "-c", back)
            assert done.returncode == 1
            assert "a mirror in the other direction runs" in done.stderr
            output_of(second, "another mirror copies the same topics")
        worker.process.terminate()
        worker.process.wait(30)
    send(there, "orders", range(3_000, 3_500), **KAFKA)
    with mirroring(back, "one") as worker:
        until_mirrored(back, "orders", 500)
        worker.process.terminate()
        worker.process.wait(30)
    assert sorted(map(int, all_values(here, "orders", 3))) == list(range(3_500))
    send(here, "orders", range(3_500, 3_600))
    with mirroring(forth, "one"):
        until_mirrored(forth, "orders", 3_100)
        assert [(each["missing"], each["twice"]) for each in verified(forth)] == [(0, 0)] * 3
    assert sorted(map(int, all_values(there, "orders", 3, **KAFKA))) == list(range(3_600)), "what came back stays there"


def created_again(admin: Admin, topic: str) -> None:
    admin.delete_topics([topic])
    try:
        admin.create_topic(topic, 1)
    except Refusal as refusal:
        # In a target, the mirror may be the first to create it.
        if refusal.error_code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise


@pytest.mark.slow
def test_topics_that_are_created_again_are_mirrored_anew_beside_one_that_the_target_refuses(
    here: str, there: str, tmp_path: Path
) -> None:
    pair = {"A->B": {"topics": "again,keyless", "sync.topic.configs.enabled": "false", **SAME_NAMES}}
    file = file_of(tmp_path, here, there, pair, name="again", **{"tasks.max": "1"})
    with Admin(here) as admin, Admin(there, **KAFKA) as at_target:
        admin.create_topics([NewTopic(topic="again", partitions=1), NewTopic(topic="keyless", partitions=1)])
        at_target.create_topics([NewTopic(topic="keyless", partitions=1, configs={"cleanup.policy": "compact"})])
        with Producer(here) as producer:
            producer.send("keyless", b"without a key")
        send(here, "again", range(100))
        with mirroring(file, "one") as worker:
            assert "each of its records needs a key" in output_of(worker, "partition is not mirrored")
            until_mirrored(file, "again", 100)
            created_again(admin, "again")
            # More than before: the former position is within the new topic.
            send(here, "again", range(1_000, 1_300))
            output_of(worker, "mirrored from its beginning")
            until_mirrored(file, "again", 300)
            found = sorted(map(int, all_values(there, "again", 1, **KAFKA)))
            assert found == [*range(100), *range(1_000, 1_300)]
            created_again(at_target, "again")
            output_of(worker, "mirrored from its beginning")
            until(partial(has_values, there, "again", 300, **KAFKA), "the new topic of the target has them")
            assert [(each["compared"], each["missing"], each["twice"]) for each in verified(file)] == [(300, 0, 0)]
            assert topics_of(file)["keyless"]["lag"] == 1
        at_target.delete_topics(["again.A-B.positions"])
        done = run("mirror", "start", "-c", file)
        assert done.returncode == 1
        assert "are gone, and topics have records of this mirror, which would be copied again: again" in done.stderr


@pytest.mark.slow
def test_two_mirrors_in_opposite_directions_that_begin_together_do_not_both_go_on(
    here: str, there: str, tmp_path: Path
) -> None:
    (tmp_path / "back").mkdir()
    forth = file_of(tmp_path, here, there, {"A->B": {"topics": "around", **SAME_NAMES}}, name="around-forth")
    back = file_of(tmp_path / "back", here, there, {"B->A": {"topics": "around", **SAME_NAMES}}, name="around-back")
    with mirroring(forth, "one") as first, mirroring(back, "one") as second:
        until(lambda: {first.process.poll(), second.process.poll()} != {None}, "one of them has ended")


def test_workers_share_the_partitions_and_what_changes_at_the_source_follows(
    here: str, there: str, tmp_path: Path
) -> None:
    pair = {"A->B": {"topics": "shared", "sync.topic.acls.enabled": "true", **SAME_NAMES}}
    file = file_of(tmp_path, here, there, pair, name="sharing")
    with Admin(here) as source, Admin(there, **KAFKA) as target:
        source.create_topic("shared", 2)
        with mirroring(file, "one") as one:
            output_of(one, "worker copies this part")
            with mirroring(file, "two") as two:
                output_of(one, "worker no longer copies these parts")
                output_of(two, "worker copies this part")
                until(partial(has_topics, target, ["shared"]), "shared is created")
                source.alter_topic_configs("shared", {"retention.ms": "7200000"})
                source.create_partitions("shared", 4)
                source.create_acls([entry("shared"), entry("shared", Operation.WRITE)])
                send(here, "shared", range(1_000))
                until_mirrored(file, "shared", 1_000)
                assert sorted(map(int, all_values(there, "shared", 4, **KAFKA))) == list(range(1_000))

                def followed() -> bool:
                    (described,) = target.describe_topics(["shared"])
                    return described.configs.get("retention.ms") == "7200000" and bool(target.describe_acls())

                until(followed, "configs and ACLs are carried over")
                assert target.describe_acls() == [entry("shared")], "nobody gets to write"


@pytest.mark.slow
def test_a_file_that_changes_between_starts_repeats_nothing_and_what_retention_took_is_told(
    here: str, there: str, tmp_path: Path
) -> None:
    pair = {"A->B": {"topics": "changed", **SAME_NAMES}}
    file = file_of(tmp_path, here, there, pair, name="before")
    with Admin(here) as admin:
        admin.create_topic("changed", 2)
        send(here, "changed", range(100))
        with mirroring(file, "one") as worker:
            until_mirrored(file, "changed", 100)
            worker.process.terminate()
            worker.process.wait(30)
        file_of(tmp_path, here, there, {"A->B": {"topics": "changed"}}, name="before")
        done = run("mirror", "start", "-c", file)
        assert (done.returncode, "or give this mirror another name" in done.stderr) == (1, True), done.stderr
        with Producer(here) as producer:
            producer.send("changed", b"never mirrored", partition=0)
        admin.delete_records({TopicPartition("changed", 0): -1})
        other = file_of(tmp_path, here, there, pair, name="after")
        with mirroring(other, "one") as worker:
            assert "another mirror between these clusters is continued" in output_of(worker, "pair begins")
            until_mirrored(other, "changed", 100)
        assert topics_of(other)["changed"]["skipped"] == 1
        assert sorted(map(int, all_values(there, "changed", 2, **KAFKA))) == list(range(100)), "nothing is there twice"
        assert [(each["missing"], each["twice"], each["skipped"]) for each in verified(other)] == [(0, 0, 1), (0, 0, 0)]


def test_prefixed_topics_of_several_sources_go_both_ways_and_never_around(
    here: str, there: str, tmp_path: Path
) -> None:
    both = {"A->B": {"topics": "events,B.*"}, "B->A": {"topics": "events,A.*"}, "C->B": {"topics": "events"}}
    clusters = {"A.bootstrap.servers": here, "B.bootstrap.servers": there, "B.wire.protocol": "kafka"}
    # The second source of B is the same cluster by another alias.
    file = mirror_file(tmp_path / "mirror.properties", {**clusters, "C.bootstrap.servers": here}, both, name="around")
    for servers, settings in ((here, {}), (there, KAFKA)):
        with Admin(servers, **settings) as admin:
            admin.create_topic("events", 1)
        send(servers, "events", range(100), **settings)
    with mirroring(file, "one"):
        for servers, topics, settings in ((here, ["B.events"], {}), (there, ["A.events", "C.events"], KAFKA)):
            with Admin(servers, **settings) as admin:
                until(partial(has_topics, admin, topics), f"{topics} are created")
            for topic in topics:
                until(partial(has_values, servers, topic, 100, **settings), f"the records are in {topic}")
    with Admin(here) as admin:
        assert not [each for each in admin.list_topics() if each.startswith(("A.", "B.A.", "B.C."))]
    away = {**clusters, "D.bootstrap.servers": "localhost:1"}
    partly = mirror_file(tmp_path / "partly", away, {"A->D": {"topics": "events"}, "A->B": both["A->B"]}, name="around")
    done = run("mirror", "status", "-c", partly)
    assert (done.returncode, "A.events" in done.stdout) == (1, True), done
    assert "A->D: not known how far it is: cluster D: no broker answered within 1 s" in done.stderr


def test_a_file_that_cannot_be_used_is_told_line_by_line(tmp_path: Path) -> None:
    file = tmp_path / "wrong.properties"
    file.write_text(
        "clusters=A, B\nA.bootstrap.servers=localhost:1\nA->B.enabled=true\nA->B.topics=(\ntopcs=x\ntasks.max=0\n"
    )
    done = run("mirror", "start", "-c", file)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    for words in ("B.bootstrap.servers is missing", "no regular expression", "did you mean topics?", "tasks.max=0"):
        assert words in done.stderr, done.stderr
