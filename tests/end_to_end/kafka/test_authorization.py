"""Kafka's clients at real nodes that ask what everybody may do.

Three nodes: what an administrator changes is forwarded to a controller in another process, which asks again.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import confluent_kafka
import kafka
import kafka.admin
import kafka.errors
import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from kraft.client import Admin, KraftError
from kraft.metadata.acls import AclEntry
from kraft.metadata.topic_names import AUDIT_TOPIC
from kraft.model.access import Operation
from tests.support.acl_entries import DENY, PREFIXED, entry
from tests.support.kafka.access_rules import AUTHORIZED, Rules, on_cluster, on_group, on_id, on_topic
from tests.support.kafka.logged_in_clients import (
    DEADLINE_S,
    VALUES,
    assert_confluents_client_works,
    assert_kafka_python_works,
    assert_produced,
)
from tests.support.kafka.login_cluster import (
    LISTENER,
    PASSWORD,
    USER,
    LoginCluster,
    login_cluster,
    of_librdkafka,
    of_python,
)
from tests.support.waiting import until, until_every_broker_knows

kafka_admin: Any = import_module("confluent_kafka.admin")
"""It does not say what it exports."""

MECHANISM = "SCRAM-SHA-256"


@pytest.fixture(name="cluster", scope="module")
def _cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoginCluster]:
    directory = tmp_path_factory.mktemp("cluster")
    audited = {
        "audit.log.path": str(directory / "audit-{node.id}.log"),
        "audit.log.topic.enable": "true",
        "audit.log.data": "reads,writes,groups",
    }
    with login_cluster(directory, 3, **AUTHORIZED, **audited) as cluster:
        cluster.set_password("root", PASSWORD)
        yield cluster


@pytest.fixture
def admin(cluster: LoginCluster) -> Iterator[Admin]:
    """Everything is allowed to whoever comes over gRPC."""
    with Admin(cluster.bootstrap_servers) as admin:
        yield admin


@pytest.fixture(scope="module")
def rules(cluster: LoginCluster) -> Iterator[Rules]:
    rules = Rules(cluster.bootstrap_servers)
    yield rules
    rules.close()


@pytest.fixture
def login(cluster: LoginCluster) -> dict[str, Any]:
    return {"bootstrap.servers": cluster.kafka_bootstrap_servers, **of_librdkafka(MECHANISM)}


@pytest.fixture
def topic(cluster: LoginCluster, admin: Admin, request: pytest.FixtureRequest) -> str:
    name: str = request.node.name[:200].replace("[", "-").replace("]", "")
    admin.create_topic(name, 1, 3)
    until_every_broker_knows(cluster.bootstrap_servers, name)
    return name


def member(topic: str, operation: Operation = Operation.READ) -> list[AclEntry]:
    """Return what alice needs to write a topic, and to read it in a group of the same name."""
    return [
        on_topic(topic, Operation.WRITE, USER),
        on_topic(topic, operation, USER),
        on_group(topic, Operation.READ, USER),
        # The test of the client creates one more.
        entry(topic, Operation.CREATE, principal=f"User:{USER}", pattern_type=PREFIXED),
    ]


def code_of(error: KafkaException | KafkaError) -> int:
    kafka_error = error.args[0] if isinstance(error, KafkaException) else error
    return int(kafka_error.code())


# --- what is allowed -------------------------------------------------------------------------------------------------


def test_confluents_client_works_with_its_rights(login: dict[str, Any], rules: Rules, topic: str) -> None:
    with rules.allowed(*member(topic)):
        assert_confluents_client_works(login, topic)


def test_kafka_python_works_with_its_rights(cluster: LoginCluster, rules: Rules, topic: str) -> None:
    login = {"bootstrap_servers": cluster.kafka_bootstrap_servers.split(","), **of_python(MECHANISM)}
    with rules.allowed(*member(topic)):
        assert_kafka_python_works(login, topic)


def test_a_super_user_needs_no_acl_and_is_denied_nothing(login: dict[str, Any], rules: Rules, topic: str) -> None:
    with rules.allowed(entry("*", Operation.ALL, DENY, principal="User:*")):
        assert_confluents_client_works({**login, "sasl.username": "root"}, topic)


# --- what is refused -------------------------------------------------------------------------------------------------


def test_a_client_without_rights_sees_and_does_nothing(
    cluster: LoginCluster, login: dict[str, Any], topic: str
) -> None:
    client = AdminClient(login)
    assert client.list_topics(timeout=DEADLINE_S).topics == {}
    found = client.list_topics(topic, timeout=DEADLINE_S).topics[topic]
    assert found.error is not None
    assert found.error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    errors: list[Any] = []
    producer = confluent_kafka.Producer({**login, "enable.idempotence": False})
    producer.produce(topic, b"x", on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(DEADLINE_S) == 0
    assert [each.code() for each in errors] == [KafkaError.TOPIC_AUTHORIZATION_FAILED]
    for futures in (
        client.create_topics([NewTopic(f"{topic}-2", 1, 3)]),
        client.delete_topics([topic]),
        client.describe_configs([kafka_admin.ConfigResource(kafka_admin.ResourceType.TOPIC, topic)]),
        client.describe_configs([kafka_admin.ConfigResource(kafka_admin.ResourceType.BROKER, "1")]),
        client.delete_consumer_groups([topic]),
    ):
        for future in futures.values():
            with pytest.raises(KafkaException) as refused:
                future.result(DEADLINE_S)
            assert code_of(refused.value) in (
                KafkaError.TOPIC_AUTHORIZATION_FAILED,
                KafkaError.CLUSTER_AUTHORIZATION_FAILED,
                KafkaError.GROUP_AUTHORIZATION_FAILED,
            )


def test_a_group_needs_its_own_right(cluster: LoginCluster, rules: Rules, topic: str) -> None:
    login = {"bootstrap_servers": cluster.kafka_bootstrap_servers.split(","), **of_python(MECHANISM)}
    with rules.allowed(on_topic(topic, Operation.READ, USER)):
        consumer = kafka.KafkaConsumer(topic, **login, group_id=topic, consumer_timeout_ms=DEADLINE_S * 1_000)
        with pytest.raises(kafka.errors.GroupAuthorizationFailedError):
            next(consumer)
        consumer.close()


def test_a_transaction_needs_the_right_for_its_id(login: dict[str, Any], rules: Rules, topic: str) -> None:
    with rules.allowed(on_topic(topic, Operation.WRITE, USER)):
        refused = confluent_kafka.Producer({**login, "transactional.id": topic})
        with pytest.raises(KafkaException) as error:
            refused.init_transactions(DEADLINE_S)
        assert code_of(error.value) == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        with rules.allowed(on_id(topic, Operation.WRITE, USER)):
            producer = confluent_kafka.Producer({**login, "transactional.id": topic})
            producer.init_transactions(DEADLINE_S)
            producer.begin_transaction()
            assert_produced(producer, topic)
            producer.commit_transaction(DEADLINE_S)


def test_a_consumer_whose_right_is_taken_away_gets_no_more(login: dict[str, Any], rules: Rules, topic: str) -> None:
    rights = member(topic)
    with rules.allowed(*rights):
        assert_produced(confluent_kafka.Producer(login), topic)
        consumer = confluent_kafka.Consumer(
            {**login, "group.id": topic, "auto.offset.reset": "earliest", "enable.partition.eof": False}
        )
        consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
        messages = consumer.consume(len(VALUES), DEADLINE_S)
        assert [each.value() for each in messages] == VALUES
        rules.withdraw(on_topic(topic, Operation.READ, USER))
        codes = set[int]()
        until_s = time.monotonic() + DEADLINE_S
        while KafkaError.TOPIC_AUTHORIZATION_FAILED not in codes and time.monotonic() < until_s:
            message = consumer.poll(1.0)
            if message is not None:
                error = message.error()
                assert error is not None, "a record came without the right"
                codes.add(error.code())
        assert KafkaError.TOPIC_AUTHORIZATION_FAILED in codes
        consumer.close()


# --- administration --------------------------------------------------------------------------------------------------


def test_an_operator_may_what_the_cluster_is_asked_for_and_no_more(
    login: dict[str, Any], rules: Rules, topic: str
) -> None:
    client = AdminClient(login)
    with rules.allowed(on_cluster(Operation.CREATE, USER)):
        client.create_topics([NewTopic(f"{topic}-2", 1, 3)])[f"{topic}-2"].result(DEADLINE_S)
        with pytest.raises(KafkaException):
            client.delete_topics([f"{topic}-2"])[f"{topic}-2"].result(DEADLINE_S)
    with pytest.raises(KafkaException):
        client.create_topics([NewTopic(f"{topic}-3", 1, 3)])[f"{topic}-3"].result(DEADLINE_S)


@pytest.mark.parametrize("right", [Operation.DESCRIBE, Operation.CLUSTER_ACTION, Operation.ALTER])
def test_acls_are_changed_by_those_who_may_alter_the_cluster(
    login: dict[str, Any], rules: Rules, right: Operation
) -> None:
    client = AdminClient(login)
    binding = kafka_admin.AclBinding(
        kafka_admin.ResourceType.TOPIC,
        f"by-{right.name}",
        kafka_admin.ResourcePatternType.LITERAL,
        f"User:{USER}",
        "*",
        kafka_admin.AclOperation.READ,
        kafka_admin.AclPermissionType.ALLOW,
    )
    with rules.allowed(on_cluster(right, USER)):
        (future,) = client.create_acls([binding]).values()
        if right is Operation.ALTER:
            future.result(DEADLINE_S)
            rules.withdraw(on_topic(f"by-{right.name}", Operation.READ, USER))
        else:
            with pytest.raises(KafkaException) as refused:
                future.result(DEADLINE_S)
            assert code_of(refused.value) == KafkaError.CLUSTER_AUTHORIZATION_FAILED


# --- the audit -------------------------------------------------------------------------------------------------------


def test_the_audit_says_once_who_did_or_was_refused_what(
    cluster: LoginCluster, login: dict[str, Any], rules: Rules, topic: str
) -> None:
    client, created = AdminClient(login), f"{topic}-2"
    with rules.allowed(on_cluster(Operation.CREATE, USER), on_topic(topic, Operation.DESCRIBE, USER)):
        client.create_topics([NewTopic(created, 1, 3)])[created].result(DEADLINE_S)
        producer = confluent_kafka.Producer({**login, "enable.idempotence": False})
        producer.produce(topic, b"x")
        assert producer.flush(DEADLINE_S) == 0
    acl = f"ALLOW User:{USER} from *: DESCRIBE on LITERAL TOPIC {topic}"
    expected = [
        {
            "event": "action",
            "principal": f"User:{USER}",
            "host": "127.0.0.1",
            "listener": LISTENER,
            "client_id": "rdkafka",
            "api": "CreateTopics",
            "operation": "CREATE",
            "resource_type": "TOPIC",
            "resource_name": created,
            "outcome": "OK",
        },
        {
            "event": "refusal",
            "principal": f"User:{USER}",
            "host": "127.0.0.1",
            "listener": LISTENER,
            "operation": "WRITE",
            "resource_type": "TOPIC",
            "resource_name": topic,
            "outcome": "TOPIC_AUTHORIZATION_FAILED",
        },
        {
            "event": "action",
            "principal": "User:ANONYMOUS",
            "host": "127.0.0.1",
            "listener": "GRPC",
            "client_id": "kraft",
            "api": "DeleteAcls",
            "operation": "ALTER",
            "resource_type": "CLUSTER",
            "resource_name": "kafka-cluster",
            "outcome": "OK",
            "detail": acl,
        },
    ]

    def found(lines: Callable[[], list[dict[str, Any]]] = lambda: audited(cluster)) -> list[dict[str, Any]]:
        # Without the time, which only has to be there.
        return [line for line in lines() if line.pop("time") and line in expected]

    until(lambda: len(found()) >= len(expected), found)
    assert all(each in found() for each in expected)
    assert len(found()) == len(expected), "what is forwarded is audited only where the client is connected"
    logins = [line for line in audited(cluster) if line["event"] == "login" and line["principal"] == f"User:{USER}"]
    assert {(line["listener"], line["outcome"], line["detail"]) for line in logins} == {(LISTENER, "OK", MECHANISM)}
    with records_of_the_audit(login) as records:
        until(lambda: len(found(records)) >= len(expected), lambda: found(records))
        assert len(found(records)) == len(expected), "each is a record of the topic, too"


@contextmanager
def records_of_the_audit(login: dict[str, Any]) -> Iterator[Callable[[], list[dict[str, Any]]]]:
    """Give what returns the lines that are in the topic by now."""
    records = list[dict[str, Any]]()
    with confluent_kafka.Consumer({**login, "sasl.username": "root", "group.id": "none"}) as consumer:
        consumer.assign([confluent_kafka.TopicPartition(AUDIT_TOPIC, 0, 0)])

        def so_far() -> list[dict[str, Any]]:
            found = [each for each in consumer.consume(1_000, 0.2) if each.error() is None]
            records.extend(json.loads(each.value() or b"") for each in found)
            return [dict(each) for each in records]

        yield so_far


def audited(cluster: LoginCluster, event: str = "") -> list[dict[str, Any]]:
    """Return the lines of all nodes, or those of a kind."""
    lines = [json.loads(line) for file in cluster.directory.glob("audit-[123].log") for line in file.open()]
    return [each for each in lines if event in ("", each["event"])]


def test_nobody_adds_a_line_to_the_topic_of_the_audit(login: dict[str, Any]) -> None:
    errors: list[Any] = []
    producer = confluent_kafka.Producer({**login, "sasl.username": "root", "enable.idempotence": False})
    producer.produce(AUDIT_TOPIC, b"{}", on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(DEADLINE_S) == 0
    assert [each.code() for each in errors] == [KafkaError.TOPIC_EXCEPTION]


def test_who_reads_and_writes_has_a_line_for_each_connection(
    cluster: LoginCluster, login: dict[str, Any], rules: Rules, topic: str
) -> None:
    with rules.allowed(*member(topic)):
        assert_confluents_client_works(login, topic)

    def uses() -> set[tuple[str, str]]:
        return {(each["operation"], each["resource_type"]) for each in found()}

    def found() -> list[dict[str, Any]]:
        used = [each for each in audited(cluster, "use") if each["resource_name"] == topic]
        assert {each["principal"] for each in used} <= {f"User:{USER}"}
        return used

    until(lambda: uses() == {("READ", "TOPIC"), ("WRITE", "TOPIC"), ("READ", "GROUP")}, uses)
    # The client has one connection to each broker for each of its instances.
    assert len(found()) <= 10


def test_a_topic_that_is_created_by_a_look_at_it_is_in_the_audit_with_its_client(
    cluster: LoginCluster, login: dict[str, Any], rules: Rules, topic: str
) -> None:
    wanted = f"{topic}-2"[-200:]
    consumer = confluent_kafka.Consumer({**login, "group.id": "none", "allow.auto.create.topics": True})
    with rules.allowed(on_topic(wanted, Operation.DESCRIBE, USER), on_topic(wanted, Operation.CREATE, USER)):
        until(lambda: consumer.list_topics(wanted, DEADLINE_S).topics[wanted].error is None, wanted)

    def found() -> list[tuple[str, str, str]]:
        actions = [each for each in audited(cluster, "action") if each["resource_name"] == wanted]
        return [(each["principal"], each["api"], each["outcome"]) for each in actions]

    until(lambda: bool(found()), found)
    assert found() == [(f"User:{USER}", "Metadata", "OK")]
    consumer.close()


def test_what_the_controller_refuses_has_one_line_wherever_the_client_is_connected(cluster: LoginCluster) -> None:
    names = []
    for number, address in enumerate(cluster.bootstrap_servers.split(",")):
        names.append(f"refused-at-{number}")
        with Admin(address) as admin, pytest.raises(KraftError, match="replication"):
            admin.create_topic(names[-1], 1, 7)

    def found() -> list[tuple[str, str, str, str]]:
        return [
            (each["resource_name"], each["principal"], each["host"], each["outcome"])
            for each in audited(cluster, "action")
            if each["resource_name"] in names
        ]

    until(lambda: len(found()) >= len(names), found)
    assert sorted(found()) == [(each, "User:ANONYMOUS", "127.0.0.1", "INVALID_REPLICATION_FACTOR") for each in names]


def test_a_client_that_does_not_log_in_is_in_the_audit(cluster: LoginCluster) -> None:
    client = AdminClient({"bootstrap.servers": cluster.kafka_bootstrap_servers})
    with pytest.raises(KafkaException):
        client.list_topics(timeout=1)

    def found() -> set[tuple[str, str, str]]:
        failed = [each for each in audited(cluster, "login") if each["outcome"] != "OK"]
        return {(each["outcome"], each["host"], each["listener"]) for each in failed}

    until(lambda: ("ILLEGAL_SASL_STATE", "127.0.0.1", LISTENER) in found(), found)
