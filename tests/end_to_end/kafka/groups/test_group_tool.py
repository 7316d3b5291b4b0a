"""Kafka's own kafka-consumer-groups, in each of its sub-commands, against three nodes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.kafka.group_members.member import CONSUMER, RANGE, Kind, members_of
from tests.support.kafka.group_members.observer import Observer, wait_read
from tests.support.kafka.kafka_jars import kafka_jars, run_kafka_tool

# Fetching the jars may come first, once.
pytestmark = pytest.mark.timeout(300)

PARTITIONS = 2
RECORDS = 10


def lines(jars: Path, servers: str, *arguments: str) -> list[list[str]]:
    """Run the tool, which must succeed; return the words of each line."""
    tool = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
    finished = run_kafka_tool(jars, tool, "--bootstrap-server", servers, "--timeout", "60000", *arguments)
    assert finished.code == 0, finished.errors
    return [line.split() for line in finished.output.splitlines() if line.strip()]


@pytest.mark.parametrize("kind", [RANGE[0], CONSUMER[0]], ids=["classic", "consumer"])
def test_kafkas_tool_lists_describes_resets_and_deletes(observer: Observer, group: str, kind: Kind) -> None:
    jars, servers, of_group = kafka_jars(), observer.servers.kafka, ("--group", group)
    protocol = "Classic" if kind == RANGE[0] else "Consumer"
    observer.create_topic(group, PARTITIONS)
    observer.produce(group, range(PARTITIONS), RECORDS)
    with members_of(observer.servers, group, group) as members:
        member = members.start(kind)
        wait_read([member], dict.fromkeys(range(PARTITIONS), RECORDS))
        observer.wait_shared(group, [member], PARTITIONS)
        described = lines(jars, servers, "--describe", *of_group, "--verbose")
        assert described[0][:4] == ["GROUP", "TOPIC", "PARTITION", "LEADER-EPOCH"]
        assert [row[:3] + row[-1:] for row in described[1:]] == [
            [group, group, str(partition), member.name] for partition in range(PARTITIONS)
        ]
        (row,) = lines(jars, servers, "--describe", *of_group, "--members")[1:]
        assert row[-2:] == [member.name, str(PARTITIONS)]
        (row,) = lines(jars, servers, "--describe", *of_group, "--state")[1:]
        assert row[-2:] == ["Stable", "1"]
        assert [group, protocol, "Stable"] in lines(jars, servers, "--list", "--state", "--type")
        refused = lines(jars, servers, "--reset-offsets", *of_group, "--all-topics", "--to-earliest", "--execute")
        assert "is inactive, but the current state is Stable." in " ".join(refused[0])
        member.stop()
    end = dict.fromkeys(range(PARTITIONS), RECORDS)
    assert observer.committed(group, group) == end

    to_three = ("--reset-offsets", *of_group, "--topic", f"{group}:1", "--to-offset", "3")
    assert lines(jars, servers, *to_three)[1:] == [[group, group, "1", "3"]]
    assert observer.committed(group, group) == end
    lines(jars, servers, *to_three, "--execute")
    assert observer.committed(group, group) == {0: RECORDS, 1: 3}
    deleted = lines(jars, servers, "--delete-offsets", *of_group, "--topic", f"{group}:0")
    assert [group, "0", "Successful"] in deleted
    assert observer.committed(group, group) == {1: 3}
    assert "was successful" in " ".join(lines(jars, servers, "--delete", *of_group)[0])
    assert [group] not in lines(jars, servers, "--list")
