"""ACLs that one tool creates are seen, and deleted, by the others, and are kept when all nodes are killed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import confluent_kafka.admin._acl as librdkafka
import kafka.admin as kafka_python
import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._resource import ResourcePatternType as RdPattern
from confluent_kafka.admin._resource import ResourceType as RdResource

from benchmarks.acls import measured
from kraft.client import Admin, Refusal
from kraft.client.model.acls import AclEntry, AclFilter, Operation, PatternType, ResourceType
from kraft.server.config.access_settings import STANDARD_AUTHORIZER
from kraft.testing import Cluster
from tests.support.acl_entries import DENY, entry
from tests.support.command_line import kraft, run_kraft
from tests.support.kafka.kafka_jars import kafka_jars, run_kafka_tool
from tests.support.waiting import until

# Fetching the jars may come first, once.
pytestmark = pytest.mark.timeout(300)

EVERYBODY_ADMINISTERS: Final = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:ANONYMOUS"}
EVERY: Final = AclFilter()


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3, overrides=EVERYBODY_ADMINISTERS) as running:
        yield running


@pytest.fixture
def admin(cluster: Cluster) -> Iterator[Admin]:
    """A client of a cluster that has no ACLs."""
    with Admin(cluster.bootstrap_servers) as client:
        client.delete_acls([EVERY])
        until_acls(client, set())
        yield client


def until_acls(admin: Admin, expected: set[AclEntry]) -> None:
    """Wait until the broker that is asked knows them: it may be another than the one that was told."""
    until(lambda: set(admin.describe_acls()) == expected, f"the ACLs did not become {expected}")


def kafka_acls(cluster: Cluster, *arguments: str) -> str:
    servers = ("--bootstrap-server", cluster.kafka_bootstrap_servers)
    finished = run_kafka_tool(kafka_jars(), "org.apache.kafka.tools.AclCommand", *servers, *arguments)
    assert finished.code == 0, finished.output + finished.errors
    return finished.output


def rdkafka_filter(
    resource_type: RdResource = RdResource.ANY,
    *,
    name: str | None = None,
    pattern_type: RdPattern = RdPattern.ANY,
    principal: str | None = None,
) -> librdkafka.AclBindingFilter:
    of_any: Any = librdkafka.AclBindingFilter
    found: librdkafka.AclBindingFilter = of_any(
        resource_type, name, pattern_type, principal, None,
        librdkafka.AclOperation.ANY, librdkafka.AclPermissionType.ANY,
    )  # fmt: skip
    return found


def listed(cluster: Cluster, *arguments: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(kraft(cluster, "acls", "list", *arguments, "--output", "json"))
    return found


def restart(cluster: Cluster) -> None:
    cluster.kill()
    cluster.start()
    cluster.wait_ready()


def test_acls_of_kafkas_tool_of_clients_and_of_kraft_are_the_same(cluster: Cluster, admin: Admin) -> None:
    # --- Kafka's own tool ---
    kafka_acls(cluster, "--add", "--allow-principal", "User:alice", "--producer", "--topic", "orders")
    of_tool = {entry("orders", each) for each in (Operation.WRITE, Operation.DESCRIBE, Operation.CREATE)}
    until_acls(admin, of_tool)
    kraft(cluster, "acls", "create", "--allow-principal", "User:alice", "--producer", "--topic", "orders")
    assert set(admin.describe_acls()) == of_tool, "one that is there is not created again"

    # --- librdkafka ---
    rdkafka = AdminClient({"bootstrap.servers": cluster.kafka_bootstrap_servers})
    binding = librdkafka.AclBinding(
        RdResource.TOPIC, "ord", RdPattern.PREFIXED, "User:bob", "10.0.0.1",
        librdkafka.AclOperation.READ, librdkafka.AclPermissionType.DENY,
    )  # fmt: skip
    rdkafka.create_acls([binding])[binding].result(30)
    of_rdkafka = entry("ord", permission=DENY, principal="User:bob", host="10.0.0.1", pattern_type=PatternType.PREFIXED)
    until_acls(admin, {*of_tool, of_rdkafka})
    found = rdkafka.describe_acls(rdkafka_filter(RdResource.TOPIC, name="orders", pattern_type=RdPattern.MATCH)).result(
        30
    )
    assert len(found) == 4
    assert binding in found

    # --- kafka-python ---
    python = kafka_python.KafkaAdminClient(bootstrap_servers=cluster.kafka_bootstrap_servers)
    of_cluster = kafka_python.ACL(
        "User:carol", "*", kafka_python.ACLOperation.ALTER, kafka_python.ACLPermissionType.ALLOW,
        kafka_python.ResourcePattern(
            kafka_python.ResourceType.CLUSTER, "kafka-cluster", kafka_python.ACLResourcePatternType.LITERAL
        ),
    )  # fmt: skip
    python.create_acls([of_cluster])
    of_python = entry("kafka-cluster", Operation.ALTER, principal="User:carol", resource_type=ResourceType.CLUSTER)
    until_acls(admin, {*of_tool, of_rdkafka, of_python})

    # --- all of them after all nodes were killed ---
    restart(cluster)
    until_acls(admin, {*of_tool, of_rdkafka, of_python})
    assert "principal=User:carol, host=*, operation=ALTER, permissionType=ALLOW" in kafka_acls(cluster, "--list")
    assert len(listed(cluster, "--topic", "orders", "--resource-pattern-type", "match")) == 4
    assert [each["operation"] for each in listed(cluster, "--principal", "User:carol")] == ["alter"]

    # --- each deletes what another one created ---
    kafka_acls(cluster, "--remove", "--force", "--cluster")
    until_acls(admin, {*of_tool, of_rdkafka})
    any_of_alice = kafka_python.ACLFilter(
        "User:alice", None, kafka_python.ACLOperation.CREATE, kafka_python.ACLPermissionType.ANY,
        kafka_python.ResourcePatternFilter(
            kafka_python.ResourceType.ANY, None, kafka_python.ACLResourcePatternType.ANY
        ),
    )  # fmt: skip
    python.delete_acls([any_of_alice])
    python.close()
    until_acls(admin, {entry("orders", Operation.WRITE), entry("orders", Operation.DESCRIBE), of_rdkafka})
    (deleted,) = rdkafka.delete_acls([rdkafka_filter(principal="User:alice")]).values()
    assert len(deleted.result(30)) == 2
    until_acls(admin, {of_rdkafka})
    gone = kraft(cluster, "acls", "delete", "--topic", "ord", "--resource-pattern-type", "prefixed", "--output", "json")
    assert [each["principal"] for each in json.loads(gone)] == ["User:bob"]
    until_acls(admin, set())


def test_a_check_says_what_a_principal_may_do_and_which_acl_says_so(cluster: Cluster, admin: Admin) -> None:
    kraft(cluster, "acls", "create", "--allow-principal", "User:alice", "--operation", "Read", "--topic", "orders")
    kraft(cluster, "acls", "create", "--deny-principal", "User:*", "--deny-host", "10.0.0.9", "--topic", "*")
    until(lambda: len(admin.describe_acls()) == 2, "the ACLs are not known")
    asked = ("acls", "check", "--topic", "orders", "--operation", "read")

    allowed = kraft(cluster, *asked, "--principal", "User:alice").splitlines()
    assert allowed[0] == "User:alice at 127.0.0.1 may read topic 'orders': this ACL says so"
    assert allowed[2].split() == ["topic", "orders", "literal", "User:alice", "*", "read", "allow"]
    at_other_host = run_kraft(cluster, *asked, "--principal", "User:alice", "--host", "10.0.0.9", "--output", "json")
    assert at_other_host.returncode == 1
    said = json.loads(at_other_host.stdout)
    assert (said["allowed"], said["acl"]["permission"], said["acl"]["resource_name"]) == (False, "deny", "*")
    unknown = run_kraft(cluster, *asked, "--principal", "User:bob")
    assert (unknown.returncode, unknown.stdout) == (
        1, "User:bob at 127.0.0.1 may not read topic 'orders': no ACL allows it\n"
    )  # fmt: skip
    assert "the principal is a super user" in kraft(cluster, *asked, "--principal", "User:ANONYMOUS")


def test_a_consumers_acls_are_printed_as_a_table(cluster: Cluster, admin: Admin) -> None:
    kraft(cluster, "acls", "create", "--allow-principal", "User:a", "--consumer", "--topic", "t", "--group", "g")
    until(lambda: len(admin.describe_acls()) == 3, "the ACLs are not known")
    table = run_kraft(cluster, "acls", "list", "--group", "g")
    assert table.stdout.splitlines()[1].split() == ["group", "g", "literal", "User:a", "*", "read", "allow"]
    assert table.stderr == "1 ACL\n"


def test_what_cannot_be_an_acl_is_refused_and_the_others_are_created(admin: Admin) -> None:
    odd = entry("not-the-cluster", resource_type=ResourceType.CLUSTER)
    with pytest.raises(Refusal, match="the only resource of the type CLUSTER is kafka-cluster"):
        admin.create_acls([entry("fine"), odd])
    until_acls(admin, {entry("fine")})
    with pytest.raises(Refusal, match="POLICY_VIOLATION: more than 10000 new ACLs in one request"):
        admin.create_acls(entry(f"topic-{number}") for number in range(10_001))
    assert set(admin.describe_acls()) == {entry("fine")}


@pytest.mark.slow
def test_kafkas_authorizer_decides_the_same_for_generated_acls() -> None:
    row = measured(400, kafka_jars())
    # It has compared the decisions.
    assert row["ACLs"] == 400
    assert {"Kafka: load s", "Kafka: memory MiB", "Kafka: decision us"} < row.keys()
