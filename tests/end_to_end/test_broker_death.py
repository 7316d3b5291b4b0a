"""What happens to partitions when processes die: found out without waiting for a session to end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kraft.client import Admin, ElectionType, Producer
from kraft.testing import Cluster
from tests.end_to_end import leader_kill_runs
from tests.end_to_end.waiting import until

SESSION_S = 300.0
DEADLINE_S = 30.0
"""A tenth of the session, so that whatever happens within it was not brought about by the session's end."""

TOPIC = "orders"


@pytest.fixture(name="cluster", scope="module")
def _cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3, overrides={"broker.session.timeout.ms": f"{SESSION_S * 1_000:.0f}"}) as cluster:
        with Admin(cluster.bootstrap_servers) as admin:
            admin.create_topic(TOPIC, partitions=3, replication_factor=3)
        yield cluster


@pytest.fixture(name="admin")
def _admin(cluster: Cluster) -> Iterator[Admin]:
    with Admin(cluster.bootstrap_servers) as admin:
        yield admin


def leaders(admin: Admin) -> list[int]:
    (topic,) = admin.describe_topics([TOPIC])
    return [partition.leader_id for partition in topic.metadata.partitions]


def all_in_sync(admin: Admin) -> bool:
    (topic,) = admin.describe_topics([TOPIC])
    return all(len(partition.isr) == 3 for partition in topic.metadata.partitions)


@pytest.mark.parametrize("is_controller", [False, True])
def test_what_a_killed_process_led_is_led_by_others_long_before_its_session_ends(
    cluster: Cluster, admin: Admin, is_controller: bool
) -> None:
    until(lambda: all_in_sync(admin) and len(set(leaders(admin))) == 3, "no even start")
    controller_id = admin.describe_quorum().leader_id
    killed = controller_id if is_controller else controller_id % 3 + 1
    assert killed in leaders(admin)
    cluster.node(killed).kill()
    until(lambda: not {killed, -1} & set(leaders(admin)), f"broker {killed} still leads")
    with Producer(cluster.bootstrap_servers, acks="all") as producer:
        for partition in range(3):
            producer.send(TOPIC, b"x", partition=partition).result(timeout=DEADLINE_S)
    assert next(each for each in admin.describe_brokers() if each.broker_id == killed).fenced
    cluster.node(killed).start()
    cluster.wait_ready(DEADLINE_S)
    until(lambda: all_in_sync(admin), "the new process of the broker is not in sync")
    # Else the next turn would have nothing to take from a broker that leads nothing.
    admin.elect_leaders(ElectionType.PREFERRED)
    until(lambda: len(set(leaders(admin))) == 3, "leaders are not even again")


def test_the_command_that_measures_how_long_a_producer_waits_takes_a_turn() -> None:
    (kill,) = leader_kill_runs.run(times=1, seed=1)
    assert 0 < kill.gap_s < DEADLINE_S
