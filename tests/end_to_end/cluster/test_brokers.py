"""Brokers, features and the quorum of a running cluster, as operators see and change them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest

from kraft.client import Admin, BrokerDescription, ErrorCode, Producer, Refusal
from kraft.testing import Cluster
from tests.support.command_line import run_kraft
from tests.support.records import once_each, read_all
from tests.support.waiting import until, until_in_sync

DEADLINE_S = 30.0
OBSERVER = 4


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Three voters that are brokers, too, and a fourth broker that follows them."""
    with Cluster(nodes=4, overrides={"broker.session.timeout.ms": "1500"}) as cluster:
        yield cluster


@pytest.fixture(name="admin")
def _admin(cluster: Cluster) -> Iterator[Admin]:
    with Admin(cluster.bootstrap_servers) as admin:
        yield admin


def broker(admin: Admin, broker_id: int) -> BrokerDescription:
    (described,) = admin.describe_brokers([broker_id])
    return described


def leaders(admin: Admin, topic: str) -> list[int]:
    (described,) = admin.describe_topics([topic])
    return [partition.leader_id for partition in described.metadata.partitions]


def test_brokers_and_the_quorum_are_shown_as_they_are(cluster: Cluster, admin: Admin) -> None:
    until(lambda: all(not each.fenced for each in admin.describe_brokers()), "a broker is not in service")
    listed = json.loads(run_kraft(cluster, "brokers", "list", "--output", "json").stdout)
    assert [(each["broker_id"], each["state"], len(each["log_directories"])) for each in listed] == [
        (1, "in-service", 1),
        (2, "in-service", 1),
        (3, "in-service", 1),
        (4, "in-service", 1),
    ]
    assert [[at["listener"] for at in each["addresses"]] for each in listed] == [["PLAINTEXT", "GRPC"]] * 4

    until(lambda: bool(admin.describe_quorum().observers), "nobody observes")
    status = dict(
        line.split(":", 1) for line in run_kraft(cluster, "quorum", "describe", "--status").stdout.splitlines()
    )
    assert status["ClusterId"].strip() == cluster.cluster_id
    assert status["CurrentVoters"].strip() == "[1,2,3]"
    assert status["CurrentObservers"].strip() == "[4]"
    until(lambda: max(each.lag for each in admin.describe_quorum().voters) == 0, "a voter never catches up")
    until(lambda: admin.describe_quorum().observers[0].lag == 0, "the observer never catches up")
    described = admin.describe_quorum()
    for member in (*described.voters, *described.observers):
        assert abs(member.last_caught_up_timestamp_ms - time.time() * 1_000) < DEADLINE_S * 1_000
    rows = [line.split() for line in run_kraft(cluster, "quorum", "describe", "--replication").stdout.splitlines()]
    assert [row[0] for row in rows] == ["NodeId", str(described.leader_id), *rows_without(described.leader_id), "4"]
    assert [row[-1] for row in rows] == ["Status", "Leader", "Follower", "Follower", "Observer"]


def rows_without(leader_id: int) -> list[str]:
    return [str(voter) for voter in (1, 2, 3) if voter != leader_id]


def test_a_fenced_broker_leads_nothing_until_it_is_unfenced_over_a_restart_of_everything(
    cluster: Cluster, admin: Admin
) -> None:
    admin.create_topic("orders", partitions=8, replication_factor=3)
    until_in_sync(admin, "orders")
    assert 2 in leaders(admin, "orders")

    fenced = run_kraft(cluster, "brokers", "fence", "2")
    assert (fenced.returncode, fenced.stdout) == (0, "Broker 2 is fenced.\n"), fenced.stderr
    assert 2 not in leaders(admin, "orders")
    assert -1 not in leaders(admin, "orders")
    seen = broker(admin, 2)
    assert (seen.fenced, seen.fenced_by_operator, seen.leaders, seen.in_sync) == (True, True, 0, 0)

    cluster.kill()
    cluster.start()
    cluster.wait_ready()
    until(lambda: broker(admin, 2).broker_epoch > seen.broker_epoch, "broker 2 is not back")
    # A broker that may serve is put into service by its first heartbeats, so this one would be by now.
    time.sleep(0.5)
    assert broker(admin, 2).fenced
    assert 2 not in leaders(admin, "orders")

    unfenced = run_kraft(cluster, "brokers", "unfence", "2")
    assert unfenced.returncode == 0, unfenced.stderr
    until(lambda: not broker(admin, 2).fenced, "broker 2 is not put into service")
    until_in_sync(admin, "orders")


def test_fencing_the_only_replica_is_refused_by_name_unless_it_is_forced(cluster: Cluster, admin: Admin) -> None:
    admin.create_topic("alone", partitions=4, replication_factor=1)
    refused = run_kraft(cluster, "brokers", "fence", str(OBSERVER))
    place = leaders(admin, "alone").index(OBSERVER)
    assert refused.returncode == 1
    assert f"would leave 1 partition without a leader in sync (alone-{place})" in refused.stderr
    assert (refused.stdout, refused.stderr.count("\n")) == ("", 1)
    assert not broker(admin, OBSERVER).fenced

    forced = run_kraft(cluster, "brokers", "fence", str(OBSERVER), "--force")
    assert forced.returncode == 0, forced.stderr
    assert leaders(admin, "alone")[place] == -1
    admin.unfence_broker(OBSERVER)
    until(lambda: leaders(admin, "alone")[place] == OBSERVER, "nobody leads the partition again")


def test_levels_are_shown_and_not_raised_beyond_what_the_nodes_support(cluster: Cluster) -> None:
    lines = run_kraft(cluster, "features", "describe").stdout.splitlines()
    shown = {line.split("\t")[0]: line.split("\t")[1:4] for line in lines}
    assert shown["Feature: metadata.version"] == [
        "SupportedMinVersion: 1",
        "SupportedMaxVersion: 5",
        "FinalizedVersionLevel: 5",
    ]
    refused = run_kraft(cluster, "features", "upgrade", "--feature", "metadata.version=6")
    assert refused.stderr == (
        "kraft: INVALID_UPDATE_VERSION: metadata.version cannot be at level 6, because the active controller supports"
        " 1 to 5: upgrade every node first\n"
    )
    again = run_kraft(cluster, "features", "upgrade", "--feature", "metadata.version=5")
    assert (again.returncode, again.stdout) == (0, "metadata.version is already at 5.\n")


def test_a_broker_is_forgotten_when_it_is_gone_and_holds_nothing(cluster: Cluster, admin: Admin) -> None:
    with pytest.raises(Refusal, match="broker 4 is running") as refused:
        admin.unregister_broker(OBSERVER)
    assert refused.value.error_code is ErrorCode.INVALID_REQUEST
    cluster.node(OBSERVER).kill()
    until(lambda: broker(admin, OBSERVER).fenced, "broker 4 is in service")

    def holds_replicas() -> bool:
        with pytest.raises(Refusal) as refused:
            admin.unregister_broker(OBSERVER)
        return "holds replicas of" in refused.value.message

    until(holds_replicas, "broker 4 is thought to run")
    admin.delete_topics(admin.list_topics())
    gone = run_kraft(cluster, "brokers", "unregister", str(OBSERVER))
    assert (gone.returncode, gone.stdout) == (0, "Broker 4 unregistered.\n"), gone.stderr
    assert [each.broker_id for each in admin.describe_brokers()] == [1, 2, 3]
    assert admin.describe_quorum().observers == []
    cluster.node(OBSERVER).start()
    until(lambda: len(admin.describe_brokers()) == 4, "broker 4 is not back")


def test_a_broker_is_emptied_and_kept_empty(cluster: Cluster, admin: Admin) -> None:
    until(lambda: all(not each.fenced for each in admin.describe_brokers()), "a broker is not in service")
    admin.create_topic("invoices", partitions=16, replication_factor=2)
    until_in_sync(admin, "invoices")
    with Producer(cluster.bootstrap_servers) as producer:
        for number in range(200):
            producer.send("invoices", b"%d" % number)
    held = broker(admin, OBSERVER).replicas
    planned = json.loads(run_kraft(cluster, "brokers", "decommission", "4", "--dry-run", "--output", "json").stdout)
    assert len(planned) == held > 0
    assert all(OBSERVER in each["replicas"] and OBSERVER not in each["target"] for each in planned)

    done = run_kraft(cluster, "brokers", "decommission", "4")
    assert done.returncode == 0, done.stderr
    assert done.stdout == (
        f"Broker 4 is empty and fenced ({held} partitions moved): stop it, then run kraft brokers unregister 4.\n"
    )
    assert done.stderr.splitlines()[0] == f"Broker 4: {held} replicas left to move."
    assert done.stderr.splitlines()[-1] == "Broker 4: 0 replicas left to move."
    emptied = broker(admin, OBSERVER)
    assert (emptied.replicas, emptied.leaders, emptied.fenced_by_operator) == (0, 0, True)
    admin.create_topic("later", partitions=8, replication_factor=3)
    assert broker(admin, OBSERVER).replicas == 0
    refused = run_kraft(cluster, "brokers", "decommission", "3")
    assert "broker 3 cannot be emptied: the 2 other brokers in service" in refused.stderr

    # It may be removed now: after it is stopped and unregistered, everything is in sync and nothing is lost.
    cluster.node(OBSERVER).terminate()
    gone = run_kraft(cluster, "brokers", "unregister", str(OBSERVER))
    assert (gone.returncode, gone.stderr) == (0, "")
    assert [each.broker_id for each in admin.describe_brokers()] == [1, 2, 3]
    for topic in ("invoices", "later"):
        (found,) = admin.describe_topics([topic])
        assert all(sorted(each.isr_nodes) == sorted(each.replica_nodes) for each in found.metadata.partitions)
    assert read_all(cluster.bootstrap_servers, "invoices") == once_each(200)
