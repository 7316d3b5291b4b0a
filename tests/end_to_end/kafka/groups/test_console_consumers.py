"""Kafka's console consumer without a group name."""

from __future__ import annotations

import pytest

from kraft.client import Admin
from tests.support.kafka.group_members.observer import Observer
from tests.support.kafka.kafka_jars import kafka_jars, run_kafka_tool

# Fetching the jars may come first, once.
pytestmark = pytest.mark.timeout(300)

CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"


def test_console_consumers_without_a_group_name_get_one_of_their_own_and_read_everything(
    observer: Observer, group: str
) -> None:
    observer.create_topic(group, 2)
    observer.produce(group, range(2), 5)
    limits = ("--from-beginning", "--max-messages", "10", "--timeout-ms", "60000")
    for number in (1, 2):
        ended = run_kafka_tool(
            kafka_jars(), CONSOLE_CONSUMER, "--bootstrap-server", observer.servers.kafka, "--topic", group, *limits
        )
        assert ended.code == 0, ended.errors
        assert len(ended.output.splitlines()) == 10
        assert len(console_groups(observer)) == number


def console_groups(observer: Observer) -> set[str]:
    with Admin(observer.servers.grpc) as admin:
        return {each.group_id for each in admin.list_groups() if each.group_id.startswith("console-consumer-")}
