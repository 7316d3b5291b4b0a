"""What Kafka's admin and producer of confluent-kafka see and do for tests of groups, on any broker."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import confluent_kafka
from confluent_kafka import ConsumerGroupState, Producer
from confluent_kafka.admin import AdminClient
from msgspec import Struct

from tests.support.kafka.group_members.member import Member
from tests.support.kafka.group_members.options import Servers
from tests.support.kafka.single_requests import end_offsets

DEADLINE_S: Final = 60.0
_POLL_S: Final = 0.05
_DESCRIBE_S: Final = 10.0
"""Time of one attempt to describe a group.

librdkafka's admin asks three times for a coordinator, within 200 ms. If the offsets topic is still being created then,
it waits until the end of the attempt.
"""

_ADMIN: Final[Any] = confluent_kafka.admin
"""The package does not declare which names it exports."""


class Described(Struct, frozen=True, kw_only=True):
    """`partitions` has those of each member, by its client id."""

    state: str
    partitions: Mapping[str, tuple[int, ...]]


class Observer:
    """Creates topics, produces to them and describes groups."""

    def __init__(self, servers: Servers) -> None:
        self.servers = servers
        self._admin = AdminClient({"bootstrap.servers": servers.kafka})
        self._producer = Producer({"bootstrap.servers": servers.kafka, "linger.ms": 5})

    def create_topic(self, topic: str, partitions: int, replicas: int = 1) -> None:
        """Returns when every partition has a leader."""
        created = self._admin.create_topics([_ADMIN.NewTopic(topic, partitions, replicas)])
        created[topic].result(DEADLINE_S)
        self.end_offsets(topic, partitions)

    def grow(self, topic: str, partitions: int) -> None:
        self._admin.create_partitions([_ADMIN.NewPartitions(topic, partitions)])[topic].result(DEADLINE_S)
        self.end_offsets(topic, partitions)

    def produce(self, topic: str, partitions: Iterable[int], count: int) -> None:
        """`count` records for each partition; all are stored when it returns."""
        for partition in partitions:
            for number in range(count):
                self._producer.produce(topic, b"%d" % number, partition=partition)
        assert self._producer.flush(DEADLINE_S) == 0

    def describe(self, group: str) -> Described:
        """Raises KafkaException."""
        found = self._admin.describe_consumer_groups([group], request_timeout=_DESCRIBE_S)[group].result()
        return Described(
            state=found.state.name,
            partitions={
                each.client_id: tuple(sorted(one.partition for one in each.assignment.topic_partitions))
                for each in found.members
            },
        )

    def type_of(self, group: str) -> str:
        """CLASSIC or CONSUMER; empty if no coordinator lists the group, as while it is loaded."""
        listed = self._admin.list_consumer_groups(request_timeout=DEADLINE_S).result().valid
        return next((str(each.type.name) for each in listed if each.group_id == group), "")

    def committed(self, group: str, topic: str) -> dict[int, int]:
        """The committed offsets by partition."""
        # Asked anew, since librdkafka 2.16 ends the process by a segmentation fault if the coordinator that an admin
        # client remembers no longer is one (librdkafka issue 5040).
        self._admin = AdminClient({"bootstrap.servers": self.servers.kafka})
        asked = [confluent_kafka.ConsumerGroupTopicPartitions(group)]
        found = self._admin.list_consumer_group_offsets(asked)[group].result(DEADLINE_S)
        return {each.partition: each.offset for each in found.topic_partitions if each.topic == topic}

    def end_offsets(self, topic: str, partitions: int) -> dict[int, int]:
        """The end of each partition, once every broker knows it and its leader leads."""
        until_s = time.monotonic() + DEADLINE_S
        while (found := end_offsets(self.servers.kafka, topic, partitions)) is None:
            assert time.monotonic() < until_s, f"{topic} does not have {partitions} partitions with leaders everywhere"
            # Polled: brokers learn of a change one after the other.
            time.sleep(_POLL_S)
        return found

    def wait_shared(self, group: str, members: Sequence[Member], partitions: int) -> Described:
        """Wait until just these members share all partitions, each one at most one more than another."""
        names, every = sorted(each.name for each in members), list(range(partitions))
        least = partitions // len(members)
        until_s = time.monotonic() + DEADLINE_S
        while True:
            for each in members:
                each.check()
            try:
                found = self.describe(group)
            except confluent_kafka.KafkaException as error:
                last: object = error
                # It goes on asking a broker that no longer coordinates the group.
                self._admin = AdminClient({"bootstrap.servers": self.servers.kafka})
            else:
                last = found
                sizes = {len(each) for each in found.partitions.values()}
                shared = sorted(one for each in found.partitions.values() for one in each)
                is_even = sizes <= {least, least + 1}
                if sorted(found.partitions) == names and shared == every and is_even and _is_stable(found):
                    return found
            assert time.monotonic() < until_s, f"not shared among {names} within {DEADLINE_S:g} s; at last: {last}"
            # Polled: members are told what they are assigned, and nobody else.
            time.sleep(_POLL_S)


def _is_stable(found: Described) -> bool:
    return found.state == ConsumerGroupState.STABLE.name


def wait_read(members: Sequence[Member], wanted: Mapping[int, int]) -> None:
    """Wait until the members have read every offset below the given ones, by partition."""
    until_s = time.monotonic() + DEADLINE_S
    while (missing := missing_offsets(members, wanted)) and time.monotonic() < until_s:
        # Polled: other threads collect what the processes report.
        time.sleep(_POLL_S)
    assert not missing, f"not read within {DEADLINE_S:g} s, by partition: {missing}"


def missing_offsets(members: Sequence[Member], wanted: Mapping[int, int]) -> dict[int, list[int]]:
    """The first offsets that nobody has read, by partition."""
    read: dict[int, set[int]] = {}
    for member in members:
        for partition, first, end in member.read:
            read.setdefault(partition, set()).update(range(first, end))
    left = {each: sorted(set(range(end)) - read.get(each, set()))[:5] for each, end in wanted.items()}
    return {partition: offsets for partition, offsets in left.items() if offsets}
