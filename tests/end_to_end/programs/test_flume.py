"""Apache Flume: an agent that reads a topic and writes another one, with the file that the page shows."""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from kraft.client import Consumer, Producer, TopicPartition
from kraft.testing import Cluster
from tests.support.maven_jars import JarsMissing, maven_jars
from tests.support.records import create_topic
from tests.support.waiting import until

_ROOT: Final = Path(__file__).parents[3]
_JARS: Final = _ROOT / "tests/support/kafka/flume.xml"
_PAGE: Final = _ROOT / "docs/log-pipeline.md"
_OPTIONS: Final = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")
LINES: Final = 1_000
_START_S: Final = 150.0


# Fetches 100 jars where they are not cached.
@pytest.mark.slow
@pytest.mark.timeout(400)
def test_an_agent_reads_in_a_group_and_writes_each_line_once(tmp_path: Path) -> None:
    try:
        jars = maven_jars(_JARS, "flume")
    except JarsMissing as missing:
        # Without a registry, as for Spark's jars. `.ci/run` has one, and there a proof that is skipped is missing.
        pytest.skip(str(missing))
    with Cluster(nodes=1) as cluster:
        servers = cluster.bootstrap_servers
        for topic in ("logs", "logs-copied"):
            create_topic(servers, topic, partitions=2, replication_factor=1)
        lines = {f"line {number}".encode(): str(number % 7).encode() for number in range(LINES)}
        with Producer(servers) as producer:
            for line, key in lines.items():
                producer.send("logs", line, key=key)
        file, log = tmp_path / "agent.properties", tmp_path / "agent.log"
        file.write_text(shown().replace("broker1:9092", cluster.kafka_bootstrap_servers))
        command = ["java", *_OPTIONS, "-cp", f"{jars}/*", "org.apache.flume.node.Application"]
        with log.open("wb") as output:
            agent = subprocess.Popen(
                [*command, "--name", "agent", "--conf-file", str(file), "--no-reload-conf"],
                stdout=output,
                stderr=output,
            )
        try:
            found = copied(servers, agent, log)
        finally:
            agent.terminate()
            agent.wait(30)
        assert found == Counter(dict.fromkeys(lines.items(), 1))
        places = [TopicPartition("logs", number) for number in range(2)]
        with Consumer(servers, group_id="flume") as consumer:
            committed, ends = consumer.committed(places), consumer.end_offsets(places)
        assert {place: at and at.offset for place, at in committed.items()} == ends


def shown() -> str:
    """Return the agent's file as the page shows it."""
    return _PAGE.read_text().partition("```properties\n")[2].partition("```")[0]


def copied(servers: str, agent: subprocess.Popen[bytes], log: Path) -> Counter[tuple[bytes, bytes]]:
    """Return how often each line with its key was copied, once all are there."""
    found: Counter[tuple[bytes, bytes]] = Counter()
    with Consumer(servers) as consumer:
        consumer.assign([TopicPartition("logs-copied", number) for number in range(2)])
        consumer.seek_to_beginning()

        def all_are_there() -> bool:
            assert agent.poll() is None, log.read_text(errors="replace")[-2_000:]
            found.update((each.value or b"", each.key or b"") for each in consumer.poll(200))
            return len(found) >= LINES

        until(all_are_there, lambda: f"{len(found)} lines: {log.read_text(errors='replace')[-2_000:]}", _START_S)
    return found
