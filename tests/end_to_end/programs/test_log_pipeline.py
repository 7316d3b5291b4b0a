"""Log lines from rsyslog and from an application to a real search engine, by way of the broker."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import pytest

from kraft.client import Consumer, Producer, TopicPartition
from kraft.client.logging import LogHandler
from kraft.local.free_ports import ReservedPorts
from kraft.testing import Cluster
from tests.support.command_line import DEADLINE_S, running
from tests.support.records import create_topic
from tests.support.search_engine.opensearch import SearchEngine, engine_jars
from tests.support.search_engine.rsyslog import Syslog, rsyslog
from tests.support.waiting import until

INDEXED_S: Final = 180.0
LINES: Final = 500
DEAD: Final = "dead-letters"


class Pipeline(NamedTuple):
    cluster: Cluster
    engine: SearchEngine


@pytest.fixture(scope="module")
def pipeline() -> Iterator[Pipeline]:
    with SearchEngine(engine_jars()) as engine, Cluster(nodes=1) as cluster:
        engine.start()
        yield Pipeline(cluster, engine)


def sink_file(directory: Path, pipeline: Pipeline, topic: str, **settings: str) -> Path:
    file = directory / "sink.properties"
    given = {
        "bootstrap.servers": pipeline.cluster.bootstrap_servers,
        "topics": topic,
        "group.id": f"sink-{topic}",
        "connection.url": pipeline.engine.url,
        "connection.compression": "gzip",
        "index": f"{topic}-%Y.%m",
        "errors.deadletterqueue.topic.name": DEAD,
        "linger.ms": "100",
        "retry.backoff.max.ms": "500",
        **{name.replace("_", "."): value for name, value in settings.items()},
    }
    file.write_text("".join(f"{key}={value}\n" for key, value in given.items()))
    return file


def dead_letters(cluster: Cluster, count: int) -> list[dict[str, str]]:
    """Return the headers of dead letters, with the value."""
    with Consumer(cluster.bootstrap_servers, auto_offset_reset="earliest", group_id="reader") as consumer:
        consumer.subscribe(DEAD)
        found: list[dict[str, str]] = []

        def have_come() -> bool:
            for each in consumer.poll(100):
                headers = {
                    name.removeprefix("__connect.errors."): (text or b"").decode() for name, text in each.headers
                }
                found.append({**headers, "value": (each.value or b"").decode()})
            return len(found) >= count

        until(have_come, lambda: f"{len(found)} dead letters of {count}: {found}")
    return found


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_lines_of_rsyslog_and_of_an_application_are_in_the_index_once_each(pipeline: Pipeline, tmp_path: Path) -> None:
    cluster, engine = pipeline
    topic = "logs"
    create_topic(cluster.bootstrap_servers, topic, partitions=2, replication_factor=1)
    reserved = ReservedPorts(1)
    metrics = f"127.0.0.1:{reserved.ports[0]}"
    handler = LogHandler(topic, cluster.kafka_bootstrap_servers, key="name", fields={"service": "orders"})
    logger = logging.getLogger("orders.payment")
    logger.setLevel(logging.INFO)
    logger.addHandler(handler)
    # The sink begins before the engine answers, and the module's other test needs the engine as well.
    with running("kraft", "sink", "-c", sink_file(tmp_path, pipeline, topic, metrics_address=metrics)) as sink:
        with rsyslog(tmp_path / "rsyslog", cluster.kafka_bootstrap_servers, topic) as listening:
            syslog = Syslog(listening)
            for number in range(LINES):
                syslog.write(f"line {number} of rsyslog")
                logger.info("line %d of the application", number, extra={"number": number})
            try:
                raise ValueError("no card")
            except ValueError:
                logger.exception("payment failed")
            syslog.close()
            logger.removeHandler(handler)
            handler.close()
            engine.wait_ready()
            until(
                lambda: stored(engine, f"{topic}-*") >= 2 * LINES + 1,
                lambda: f"{stored(engine, f'{topic}-*')} lines",
                INDEXED_S,
            )

        def page() -> str:
            found: bytes = urllib.request.urlopen(f"http://{metrics}/metrics", timeout=10).read()
            return found.decode()

        # Documents are found before the sink has read the answer that says they are indexed.
        until(lambda: f'kraft_sink_documents_total{{result="indexed"}} {2 * LINES + 1:.1f}' in page(), page)
        sink.process.send_signal(signal.SIGTERM)
        assert sink.process.wait(30) == 143, sink.stderr.read().decode()
    reserved.release()
    found = engine.found(f"{topic}-*")
    messages = sorted(each["message"] for each in found)
    whose = ("rsyslog", "the application")
    assert messages == sorted(
        [*(f"line {number} of {who}" for who in whose for number in range(LINES)), "payment failed"]
    )
    (failed,) = [each for each in found if each["message"] == "payment failed"]
    assert failed["level"] == "ERROR"
    assert failed["service"] == "orders"
    assert "ValueError: no card" in failed["exception"]
    assert handler.sent == LINES + 1
    # The committed positions are the ends: a sink that starts anew reads nothing again.
    places = [TopicPartition(topic, number) for number in range(2)]
    with Consumer(cluster.bootstrap_servers, group_id=f"sink-{topic}") as consumer:
        committed, ends = consumer.committed(places), consumer.end_offsets(places)
    assert {each: None if at is None else at.offset for each, at in committed.items()} == ends


def test_what_is_no_document_is_in_the_dead_letters_with_the_reason_and_the_rest_is_indexed(
    pipeline: Pipeline, tmp_path: Path
) -> None:
    cluster, engine = pipeline
    topic = "readings"
    create_topic(cluster.bootstrap_servers, topic, partitions=1, replication_factor=1)
    lines = [
        '{"celsius": 20}',
        '{"celsius": "warm"}',
        '{"celsius": ',
        "[1, 2]",
        '{"celsius": {"of": 1}}',
        '{"celsius":\n 21}',
        '{"celsius": 22}',
    ]
    publish_text(cluster, topic, lines)
    with running("kraft", "sink", "-c", sink_file(tmp_path, pipeline, topic, index="readings")):
        engine.wait_ready()
        letters = dead_letters(cluster, 4)
        until(lambda: stored(engine, topic) == 3, lambda: f"{stored(engine, topic)} documents")
    assert sorted(each["celsius"] for each in engine.found(topic)) == [20, 21, 22]
    assert {each["_id"] for each in engine.found(topic)} == {f"readings-0-{offset}" for offset in (0, 5, 6)}
    assert {(each["topic"], each["partition"], each["offset"], each["value"]) for each in letters} == {
        (topic, "0", str(offset), lines[offset]) for offset in (1, 2, 3, 4)
    }
    kinds = {each["offset"]: each["exception.class.name"] for each in letters}
    assert kinds == {
        "1": "mapper_parsing_exception",
        "2": "not_a_document",
        "3": "not_a_document",
        "4": "mapper_parsing_exception",
    }
    # A second sink that has no positions sends everything again: no document is there twice.
    with running("kraft", "sink", "-c", sink_file(tmp_path, pipeline, topic, index="readings", group_id="again")):
        assert len(dead_letters(cluster, 4)) == 4
    assert engine.count(topic) == 3


def publish_text(cluster: Cluster, topic: str, lines: list[str]) -> None:
    with Producer(cluster.bootstrap_servers) as producer:
        for each in lines:
            producer.send(topic, each.encode()).result(30)


def stored(engine: SearchEngine, index: str) -> int:
    try:
        return engine.count(index)
    except AssertionError:
        return 0


PROGRAM: Final = """
import logging, multiprocessing, sys, threading
from kraft.client.logging import LogHandler

handler = LogHandler("forked", sys.argv[1])
logging.basicConfig(level=logging.INFO, handlers=[handler])

def write(name):
    for number in range(100):
        logging.info("%s %d", name, number)

if __name__ == "__main__":
    threads = [threading.Thread(target=write, args=(f"thread {each}",)) for each in range(3)]
    for each in threads:
        each.start()
    child = multiprocessing.get_context("fork").Process(target=write, args=("child",))
    child.start()
    child.join()
    for each in threads:
        each.join()
"""


@pytest.mark.slow
def test_a_program_that_forks_and_ends_without_a_word_loses_no_line(pipeline: Pipeline) -> None:
    cluster, _ = pipeline
    create_topic(cluster.bootstrap_servers, "forked", partitions=1, replication_factor=1)
    command = [sys.executable, "-c", PROGRAM, cluster.kafka_bootstrap_servers]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    with Consumer(cluster.bootstrap_servers, consumer_timeout_ms=1_000) as consumer:
        consumer.assign([TopicPartition("forked", 0)])
        consumer.seek_to_beginning()
        found = sorted(msgspec.json.decode(each.value or b"")["message"] for each in consumer)
    whose = ["child", *(f"thread {each}" for each in range(3))]
    assert found == sorted(f"{who} {number}" for who in whose for number in range(100))
