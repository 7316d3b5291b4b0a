"""Groups whose members are unmodified clients of Kafka and our own, each a process: alone, and mixed in one group."""

from __future__ import annotations

import pytest

from tests.support.kafka.group_members.member import CONSUMER, COOPERATIVE, KINDS, RANGE, Kind, members_of
from tests.support.kafka.group_members.observer import Observer, wait_read

# Kafka's jars and KafkaJS may have to be fetched first.
pytestmark = pytest.mark.timeout(300)

PARTITIONS = 4
MANY_PARTITIONS = 12


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS, ids=[kind.name for kind in KINDS])
def test_two_members_of_one_client_share_the_partitions_and_another_continues(
    observer: Observer, group: str, kind: Kind
) -> None:
    observer.create_topic(group, PARTITIONS)
    every = range(PARTITIONS)
    observer.produce(group, every, 10)
    with members_of(observer.servers, group, group) as members:
        first = members.start(kind)
        wait_read([first], dict.fromkeys(every, 10))
        second = members.start(kind)
        shared = observer.wait_shared(group, [first, second], PARTITIONS)
        observer.produce(group, every, 10)
        wait_read([first, second], dict.fromkeys(every, 20))
        assert {partition for partition, _, end in second.read if end > 10} == set(shared.partitions[second.name])

        second.stop()
        observer.wait_shared(group, [first], PARTITIONS)
        observer.produce(group, every, 10)
        wait_read([first, second], dict.fromkeys(every, 30))
        first.stop()
        assert observer.committed(group, group) == dict.fromkeys(every, 30)

        observer.produce(group, every, 1)
        third = members.start(kind)
        wait_read([first, second, third], dict.fromkeys(every, 31))
        assert sorted(third.read) == [(partition, 30, 31) for partition in every]
        third.stop()


@pytest.mark.slow
def test_all_clients_with_the_range_assignor_share_one_group(observer: Observer, group: str) -> None:
    check_mixed(observer, group, RANGE, RANGE[::2])


@pytest.mark.slow
def test_all_clients_with_the_cooperative_assignor_share_one_group(observer: Observer, group: str) -> None:
    check_mixed(observer, group, COOPERATIVE, COOPERATIVE[::2])


@pytest.mark.slow
def test_members_of_both_protocols_share_one_group_in_either_order(observer: Observer, group: str) -> None:
    """Members of the consumer protocol come to a classic group; then classic members to a consumer group."""
    classic = tuple(each for each in RANGE if each.client in ("kafka_python", "kraft", "aiokafka"))
    check_mixed(observer, f"{group}-1", (*classic, *CONSUMER), classic)
    consumer, classic = (
        tuple(each for each in kinds if each.client in ("confluent", "kraft")) for kinds in (CONSUMER, RANGE)
    )
    check_mixed(observer, f"{group}-2", (*consumer, *classic), consumer)


def check_mixed(observer: Observer, group: str, kinds: tuple[Kind, ...], leaving: tuple[Kind, ...]) -> None:
    """Members join one after the other; some leave again; every record is read, and committed in the end."""
    observer.create_topic(group, MANY_PARTITIONS)
    every = range(MANY_PARTITIONS)
    observer.produce(group, every, 5)
    with members_of(observer.servers, group, group) as members:
        for number, kind in enumerate(kinds, 1):
            members.start(kind)
            observer.wait_shared(group, members.all, MANY_PARTITIONS)
            observer.produce(group, every, 5)
            wait_read(members.all, dict.fromkeys(every, 5 + 5 * number))
        staying = []
        for member in members.all:
            if member.kind in leaving:
                member.stop()
            else:
                staying.append(member)
        observer.wait_shared(group, staying, MANY_PARTITIONS)
        observer.produce(group, every, 5)
        until = 10 + 5 * len(kinds)
        wait_read(members.all, dict.fromkeys(every, until))
        for member in staying:
            member.stop()
        assert observer.committed(group, group) == dict.fromkeys(every, until)
