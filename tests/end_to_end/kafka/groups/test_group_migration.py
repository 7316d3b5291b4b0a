"""A group whose members are replaced one by one by members of the other protocol, and back, while it reads."""

from __future__ import annotations

import pytest

from kraft.client import Admin
from kraft.testing import Cluster
from tests.soak import group_migration_runs
from tests.soak.group_migration_runs import Step
from tests.support.kafka.group_members.member import Kind, members_of
from tests.support.kafka.group_members.observer import Observer, wait_read

pytestmark = pytest.mark.timeout(300)

PARTITIONS = 4
EVERY = range(PARTITIONS)
CONSUMER = Kind(client="confluent", protocol="consumer")


# librdkafka's cooperative assignor gives members data of its own: Kafka, too, upgrades no group with it.
CLASSIC = (
    Kind(client="confluent", protocol="range"),
    Kind(client="kafka_python", protocol="cooperative-sticky"),
    Kind(client="java", protocol="cooperative-sticky"),
)


@pytest.mark.slow
@pytest.mark.parametrize("classic", CLASSIC, ids=[kind.name for kind in CLASSIC])
def test_a_group_is_upgraded_and_downgraded_while_it_reads(observer: Observer, group: str, classic: Kind) -> None:
    observer.create_topic(group, PARTITIONS)
    observer.produce(group, EVERY, 10)
    with members_of(observer.servers, group, group) as members:
        old = [members.start(classic), members.start(classic)]
        observer.wait_shared(group, old, PARTITIONS)
        assert observer.type_of(group) == "CLASSIC"

        new = [members.start(CONSUMER)]
        observer.wait_shared(group, [*old, *new], PARTITIONS)
        assert observer.type_of(group) == "CONSUMER"
        with Admin(observer.servers.grpc) as admin:
            (described,) = admin.describe_consumer_groups([group])
        assert {each.client_id: each.upgraded for each in described.members} == {
            **{each.name: False for each in old},
            new[0].name: True,
        }
        observer.produce(group, EVERY, 10)
        wait_read(members.all, dict.fromkeys(EVERY, 20))
        for _ in range(2):
            old.pop().stop()
            observer.wait_shared(group, [*old, *new], PARTITIONS)
        new.append(members.start(CONSUMER))
        observer.wait_shared(group, new, PARTITIONS)

        old.append(members.start(classic))
        observer.wait_shared(group, [*old, *new], PARTITIONS)
        observer.produce(group, EVERY, 10)
        wait_read(members.all, dict.fromkeys(EVERY, 30))
        while new:
            assert observer.type_of(group) == "CONSUMER"
            new.pop().stop()
            observer.wait_shared(group, [*old, *new], PARTITIONS)
        assert observer.type_of(group) == "CLASSIC"
        observer.produce(group, EVERY, 10)
        wait_read(members.all, dict.fromkeys(EVERY, 40))
        old.pop().stop()
        assert observer.committed(group, group) == dict.fromkeys(EVERY, 40)


def test_a_group_whose_assignor_has_data_of_its_own_takes_the_consumer_protocol_once_it_is_empty(
    observer: Observer, group: str
) -> None:
    observer.create_topic(group, PARTITIONS)
    with members_of(observer.servers, group, group) as members:
        old = []
        # The assignor has data from the second generation on: each member gets what it sent in its subscription.
        for _ in range(2):
            old.append(members.start(Kind(client="confluent", protocol="cooperative-sticky")))
            observer.wait_shared(group, old, PARTITIONS)
        refused = members.start(CONSUMER)
        refused.wait_failed("group id does not exist")
        refused.kill()
        observer.wait_shared(group, old, PARTITIONS)
        for each in old:
            each.stop()
        observer.wait_shared(group, [members.start(CONSUMER)], PARTITIONS)
        assert observer.type_of(group) == "CONSUMER"


@pytest.mark.slow
def test_each_record_is_read_and_none_is_committed_twice_when_coordinators_die_during_migrations(
    cluster: Cluster,
) -> None:
    """A small turn of `group_migration_runs`."""
    group_migration_runs.run(cluster, seed=1, killed=[Step.UPGRADE, Step.DOWNGRADE], period_s=0.25)
