"""Kafka's `kafka-consumer-groups.sh`, unmodified, in every sub-command."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from kraft import client
from kraft.model.errors import ErrorCode
from tests.support.kafka.group_members.member import Kind, Member, members_of
from tests.support.kafka.group_members.observer import Observer, wait_read
from tests.support.kafka.kafka_jars import Finished, kafka_jars, run_kafka_tool
from tests.support.waiting import until

# Fetching the jars may come first, once.
pytestmark = pytest.mark.timeout(300)

TOPIC = "toolbox"
PARTITIONS = 2
ENDED = "toolbox-ended"
LIVE = {"classic": "toolbox-classic", "consumer": "toolbox-consumer"}

Tool = Callable[..., Finished]


@pytest.fixture(scope="module")
def tool(servers: str) -> Tool:
    jars = kafka_jars()

    def run(*arguments: str | Path) -> Finished:
        command = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
        return run_kafka_tool(jars, command, "--bootstrap-server", servers, *arguments)

    return run


def _has_committed(observer: Observer, group: str, offsets: Mapping[int, int]) -> bool:
    return observer.committed(group, TOPIC) == offsets


@pytest.fixture(scope="module")
def live(observer: Observer) -> Iterator[dict[str, Member]]:
    """A member of each protocol, which have read a topic with ten records in each of its partitions."""
    observer.create_topic(TOPIC, PARTITIONS)
    observer.produce(TOPIC, range(PARTITIONS), 10)
    every = dict.fromkeys(range(PARTITIONS), 10)
    with (
        members_of(observer.servers, LIVE["classic"], TOPIC) as classic,
        members_of(observer.servers, LIVE["consumer"], TOPIC) as newer,
    ):
        members = {
            "classic": classic.start(Kind(client="confluent", protocol="range")),
            "consumer": newer.start(Kind(client="confluent", protocol="consumer")),
        }
        for member in members.values():
            wait_read([member], every)
        for group in LIVE.values():
            # The commit follows the read.
            until(partial(_has_committed, observer, group, every), f"{group} has not committed all that was read")
        yield members


@pytest.fixture
def ended(servers: str, live: dict[str, Member]) -> str:
    """A group without members that has committed 4 and 6."""
    assert live
    commit(servers, ENDED, 4, 6)
    return ENDED


def commit(servers: str, group: str, *offsets: int) -> None:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": group, "enable.auto.commit": False})
    wanted = [TopicPartition(TOPIC, partition, offset) for partition, offset in enumerate(offsets)]
    consumer.commit(offsets=wanted, asynchronous=False)
    consumer.close()


def table(finished: Finished) -> list[list[str]]:
    """The words of each line but the headings, which begin with GROUP."""
    assert finished.code == 0, finished.errors
    lines = [line.split() for line in finished.output.splitlines()]
    return sorted(line for line in lines if line and line[0].startswith("toolbox"))


def test_groups_are_listed_with_types_and_states(tool: Tool, ended: str, live: dict[str, Member]) -> None:
    assert set(tool("--list").output.split()) >= {ended, *LIVE.values()}
    assert table(tool("--list", "--state")) == sorted(
        [[ended, "Empty"], [LIVE["classic"], "Stable"], [LIVE["consumer"], "Stable"]]
    )
    assert table(tool("--list", "--type", "consumer")) == [[LIVE["consumer"], "Consumer"]]
    assert [row[:2] for row in table(tool("--list", "--type", "classic", "--state", "stable"))] == [
        [LIVE["classic"], "Classic"]
    ]


@pytest.mark.parametrize("protocol", LIVE)
def test_a_group_with_a_member_is_described(tool: Tool, live: dict[str, Member], protocol: str) -> None:
    group, name = LIVE[protocol], live[protocol].name
    offsets = table(tool("--describe", "--group", group))
    # Group, topic, partition, leader epoch where it is told, committed offset, end, lag; member, host and client.
    assert [(row[1], row[2], row[-6:-3], row[-1]) for row in offsets] == [
        (TOPIC, str(partition), ["10", "10", "0"], name) for partition in range(PARTITIONS)
    ]
    assert {row[-2] for row in offsets} == {"/127.0.0.1"}

    (member,) = table(tool("--describe", "--group", group, "--members", "--verbose"))
    assert name in member
    assert f"{TOPIC}:0,1" in " ".join(member)
    (state,) = table(tool("--describe", "--group", group, "--state", "--verbose"))
    assert "Stable" in state
    assert state[-1] == "1"


def test_all_groups_are_described(tool: Tool, ended: str, live: dict[str, Member]) -> None:
    rows = table(tool("--describe", "--all-groups"))
    assert {row[0] for row in rows} >= {ended, *LIVE.values()}
    lags = {row[2]: row[-4] for row in rows if row[0] == ended}
    assert lags == {"0": "6", "1": "4"}


def test_a_group_that_does_not_exist_is_reported(tool: Tool) -> None:
    found = tool("--describe", "--group", "toolbox-nobody")
    assert "toolbox-nobody" in found.output + found.errors
    assert re.search("does not exist|not found|GroupIdNotFoundException", found.output + found.errors)


def test_offsets_are_reset_in_every_way(tool: Tool, observer: Observer, ended: str, tmp_path: Path) -> None:
    def reset(*how: str | Path, execute: str = "--execute") -> dict[int, int]:
        finished = tool("--reset-offsets", "--group", ended, "--topic", TOPIC, *how, execute)
        table(finished)
        return observer.committed(ended, TOPIC)

    assert reset("--to-earliest", execute="--dry-run") == {0: 4, 1: 6}
    assert reset("--to-earliest") == {0: 0, 1: 0}
    assert reset("--shift-by", "3") == {0: 3, 1: 3}
    assert reset("--to-offset", "7") == {0: 7, 1: 7}
    assert reset("--to-current") == {0: 7, 1: 7}
    assert reset("--to-datetime", "2020-01-01T00:00:00.000") == {0: 0, 1: 0}
    assert reset("--to-latest") == {0: 10, 1: 10}
    assert reset("--by-duration", "P1D") == {0: 0, 1: 0}
    file = tmp_path / "offsets.csv"
    file.write_text(f"{TOPIC},0,2\n{TOPIC},1,5\n")
    from_file = tool("--reset-offsets", "--group", ended, "--from-file", file, "--execute")
    assert from_file.code == 0, from_file.errors
    assert observer.committed(ended, TOPIC) == {0: 2, 1: 5}, from_file.output + from_file.errors
    exported = tool("--reset-offsets", "--group", ended, "--topic", TOPIC, "--to-current", "--export", "--dry-run")
    plan = {tuple(line.replace('"', "").split(",")) for line in exported.output.splitlines()}
    assert plan >= {(TOPIC, "0", "2"), (TOPIC, "1", "5")}, exported.output


@pytest.mark.parametrize("protocol", LIVE)
def test_a_live_group_is_neither_reset_nor_deleted(
    tool: Tool, observer: Observer, live: dict[str, Member], protocol: str
) -> None:
    group = LIVE[protocol]
    before = observer.committed(group, TOPIC)
    reset = tool("--reset-offsets", "--group", group, "--topic", TOPIC, "--to-earliest", "--execute")
    assert "inactive" in reset.output + reset.errors
    deleted = tool("--delete", "--group", group)
    assert "not empty" in (deleted.output + deleted.errors).lower()
    subscribed = tool("--delete-offsets", "--group", group, "--topic", TOPIC)
    assert "actively subscribed" in (subscribed.output + subscribed.errors).lower()
    live[protocol].check()
    assert observer.committed(group, TOPIC) == before


def test_offsets_and_then_the_group_are_deleted(tool: Tool, observer: Observer, ended: str) -> None:
    deleted = tool("--delete-offsets", "--group", ended, "--topic", f"{TOPIC}:0")
    assert deleted.code == 0, deleted.errors
    assert observer.committed(ended, TOPIC) == {1: 6}
    assert "successful" in tool("--delete", "--group", ended).output
    assert ended not in tool("--list").output.split()
    again = tool("--delete", "--group", ended)
    assert ended in again.output + again.errors


def test_the_tool_says_of_a_regular_expression_what_a_subscription_meets(
    tool: Tool, observer: Observer, live: dict[str, Member]
) -> None:
    """The tool checks it without a broker."""
    assert live
    for invalid in ("(toolbox", "toolbox(?=-)", "t{1001}"):
        assert f"`{invalid}` is invalid" in tool("--validate-regex", invalid).output
        with pytest.raises(client.Refusal, match=ErrorCode.INVALID_REGULAR_EXPRESSION.name):
            wait_read_by_pattern(observer.servers.grpc, invalid)
    valid = "t[o-z]+l(?i:BOX)"
    assert f"`{valid}` is valid" in tool("--validate-regex", valid).output
    wait_read_by_pattern(observer.servers.grpc, valid)


def wait_read_by_pattern(servers: str, pattern: str) -> None:
    """Wait until a member that subscribes to the topics that match has read of them."""
    with client.Consumer(
        servers, group_id="toolbox-regex", auto_offset_reset="earliest", enable_auto_commit=False
    ) as consumer:
        consumer.subscribe(pattern=pattern)
        until(lambda: bool(consumer.poll()), "no record was read")
