"""Kafka's clients log in at real nodes: each with each mechanism produces, consumes in a group and administers.

Three nodes, whose only listener of Kafka's protocol asks for a login: replicas are fetched there too.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import kafka
import kafka.admin
import kafka.errors
import pytest
from confluent_kafka.admin import AdminClient

from kraft.client import Admin, AuthenticationFailed, NoBrokerReachable, Refusal
from kraft.model.errors import ErrorCode
from kraft.sasl.scram import ScramMechanism
from kraft.sasl.scram_client import ScramClient
from kraft.server.apis.table import APIS
from kraft.wire.api_versions import advertised
from kraft.wire.schema.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tests.support.kafka.kafka_jars import kafka_jars, run_kafka_tool
from tests.support.kafka.kafka_programs import console_consumer, console_producer, kcat
from tests.support.kafka.logged_in_clients import (
    DEADLINE_S,
    VALUES,
    aiokafka_reads_what_it_wrote,
    assert_confluents_client_works,
    assert_kafka_python_works,
    assert_our_clients_work,
    assert_produced,
)
from tests.support.kafka.login_cluster import (
    MECHANISMS,
    PASSWORD,
    USER,
    LoginCluster,
    LoginConnection,
    login_cluster,
    of_java,
    of_librdkafka,
    of_python,
)
from tests.support.waiting import until, until_every_broker_knows

each_mechanism = pytest.mark.parametrize("mechanism", MECHANISMS)


@pytest.fixture(name="cluster", scope="module")
def _cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoginCluster]:
    with login_cluster(tmp_path_factory.mktemp("cluster"), 3) as cluster:
        yield cluster


@pytest.fixture
def servers(cluster: LoginCluster) -> str:
    return cluster.kafka_bootstrap_servers


@pytest.fixture
def topic(cluster: LoginCluster, request: pytest.FixtureRequest) -> str:
    name: str = request.node.name[:200].replace("[", "-").replace("]", "")
    with Admin(cluster.bootstrap_servers) as admin:
        try:
            admin.create_topic(name, 1, 3)
        except Refusal as refusal:
            # Where a response is lost, the call is repeated, and finds the topic.
            if refusal.error_code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
    until_every_broker_knows(cluster.bootstrap_servers, name)
    return name


# --- clients -----------------------------------------------------------------------------------------------------


@each_mechanism
def test_confluents_client(servers: str, topic: str, mechanism: str) -> None:
    assert_confluents_client_works({"bootstrap.servers": servers, **of_librdkafka(mechanism)}, topic)


@each_mechanism
def test_confluents_transactions(servers: str, topic: str, mechanism: str) -> None:
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": servers, **of_librdkafka(mechanism), "transactional.id": topic}
    )
    producer.init_transactions(DEADLINE_S)
    producer.begin_transaction()
    assert_produced(producer, topic)
    producer.commit_transaction(DEADLINE_S)


@each_mechanism
def test_our_clients(servers: str, topic: str, mechanism: str) -> None:
    assert_our_clients_work({"bootstrap.servers": servers, **of_librdkafka(mechanism)}, topic)


@each_mechanism
def test_our_clients_are_told_that_they_cannot_log_in(servers: str, mechanism: str) -> None:
    settings: dict[str, Any] = {**of_librdkafka(mechanism), "sasl.password": "wrong", "wire.protocol": "kafka"}
    with Admin(servers, **settings) as admin, pytest.raises(AuthenticationFailed, match="refused user 'alice'"):
        admin.list_topics()


def test_our_clients_without_a_login_are_told_that_one_may_be_needed(servers: str) -> None:
    with (
        Admin(servers, wire_protocol="kafka", default_api_timeout_ms=2_000) as admin,
        pytest.raises(NoBrokerReachable, match="it may require a login"),
    ):
        admin.list_topics()


def test_our_clients_are_told_that_a_port_speaks_another_protocol(cluster: LoginCluster) -> None:
    with (
        Admin(cluster.bootstrap_servers, wire_protocol="kafka") as admin,
        pytest.raises(AuthenticationFailed, match="it does not speak Kafka's protocol"),
    ):
        admin.list_topics()


def test_the_guides_sample_for_kafka_python(cluster: LoginCluster, topic: str) -> None:
    cluster.set_password("ickel", "seilfot", "SCRAM-SHA-256")
    bootstrap_servers = cluster.kafka_bootstrap_servers
    # As the guide has it.
    producer = kafka.KafkaProducer(
        bootstrap_servers=bootstrap_servers,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="PLAIN",
        sasl_plain_username="ickel",
        sasl_plain_password="seilfot",
    )
    metadata = producer.send(topic, b"a message of the guide").get(DEADLINE_S)
    assert (metadata.topic, metadata.offset) == (topic, 0)
    producer.close(timeout=DEADLINE_S)


@each_mechanism
def test_kafka_python(servers: str, topic: str, mechanism: str) -> None:
    assert_kafka_python_works({"bootstrap_servers": servers.split(","), **of_python(mechanism)}, topic)


@each_mechanism
def test_aiokafka(servers: str, topic: str, mechanism: str) -> None:
    login = {"bootstrap_servers": servers, **of_python(mechanism)}
    assert asyncio.run(aiokafka_reads_what_it_wrote(login, topic)) == VALUES


def test_kcat(servers: str, topic: str) -> None:
    # Not SCRAM: Debian's librdkafka is older than 2.6.1, and sends a nonce that Kafka 4 refuses as well.
    login = [word for name, text in of_librdkafka("PLAIN").items() for word in ("-X", f"{name}={text}")]
    kcat(servers, *login, "-P", "-t", topic, given=b"\n".join(VALUES))
    read = kcat(servers, *login, "-C", "-t", topic, "-o", "beginning", "-e", "-q")
    assert read.splitlines() == VALUES


@each_mechanism
def test_javas_clients(servers: str, topic: str, mechanism: str) -> None:
    login = [word for name, text in of_java(mechanism).items() for word in ("--command-property", f"{name}={text}")]
    console_producer(servers, topic, b"\n".join(VALUES) + b"\n", *login)
    assert console_consumer(servers, topic, 0, len(VALUES), *login).splitlines() == VALUES


def test_kafkas_tool_makes_changes_and_removes_users(cluster: LoginCluster, tmp_path: Path) -> None:
    servers, file = cluster.kafka_bootstrap_servers, tmp_path / "client.properties"
    file.write_text("".join(f"{name}={text}\n" for name, text in of_java("SCRAM-SHA-512").items()))

    def configs(*arguments: str) -> str:
        done = run_kafka_tool(
            kafka_jars(),
            "kafka.admin.ConfigCommand",
            *("--bootstrap-server", servers, "--command-config", str(file)),
            *("--entity-type", "users", "--entity-name", "carol"),
            *arguments,
        )
        assert done.code == 0, done.errors
        return done.output

    def until_answered(mechanism: str, password: str, expected: ErrorCode) -> None:
        """Wait: the broker may hear of the change after the one that the tool has asked."""

        def answered() -> int:
            with LoginConnection(servers.split(",")[0]) as connection:
                return connection.log_in(mechanism, "carol", password).error_code

        until(lambda: answered() == expected, f"{password} is not answered with {expected.name}")

    configs("--alter", "--add-config", "SCRAM-SHA-256=[iterations=8192,password=first]")
    until_answered("SCRAM-SHA-256", "first", ErrorCode.NONE)
    configs("--alter", "--add-config", "SCRAM-SHA-256=[iterations=4096,password=second]")
    until_answered("PLAIN", "second", ErrorCode.NONE)
    until_answered("PLAIN", "first", ErrorCode.SASL_AUTHENTICATION_FAILED)
    assert "SCRAM-SHA-256=iterations=4096" in configs("--describe")
    configs("--alter", "--delete-config", "SCRAM-SHA-256")
    until_answered("SCRAM-SHA-256", "second", ErrorCode.SASL_AUTHENTICATION_FAILED)


# --- refusals, as clients show them ------------------------------------------------------------------------------


@each_mechanism
@pytest.mark.parametrize(("user", "password"), [(USER, "guessed"), ("nobody", PASSWORD)])
def test_confluents_client_is_told_that_it_cannot_log_in(
    servers: str, mechanism: str, user: str, password: str
) -> None:
    errors: list[confluent_kafka.KafkaError] = []
    settings: dict[str, Any] = {**of_librdkafka(mechanism, user, password), "error_cb": errors.append}
    client = AdminClient({"bootstrap.servers": servers, **settings})
    until(lambda: client.poll(0.1) > 0 and bool(errors), "no error was reported")
    found = next(error for error in errors if error.code() == confluent_kafka.KafkaError._AUTHENTICATION)
    assert "Invalid username or password" in found.str() or "invalid credentials" in found.str()


@each_mechanism
def test_kafka_python_is_told_that_it_cannot_log_in(servers: str, mechanism: str) -> None:
    with pytest.raises(kafka.errors.KafkaError):
        kafka.KafkaProducer(
            bootstrap_servers=servers, **of_python(mechanism, USER, "guessed"), bootstrap_timeout_ms=1_000
        )


def test_the_versions_are_the_same_as_without_login(servers: str) -> None:
    with LoginConnection(servers.split(",", maxsplit=1)[0]) as connection:
        answer = connection.ask(ApiVersionsRequest(), 0, ApiVersionsResponse)
    assert answer is not None
    assert answer.api_keys == advertised(each.key for each in APIS if each.key is not None)


def test_a_client_without_login_gets_nothing(servers: str) -> None:
    with LoginConnection(servers.split(",", maxsplit=1)[0]) as connection:
        assert not connection.is_served()


def test_replicas_are_fetched_at_the_same_listeners(cluster: LoginCluster, topic: str) -> None:
    """Nodes introduce themselves there; they have no user."""

    def nodes_that_logged(event: str) -> int:
        return sum(event in node.log_path.read_text() for node in cluster.local.nodes.values())

    until(
        lambda: nodes_that_logged("replica connection opened") >= 2, f"no follower of {topic} connected to its leader"
    )
    assert nodes_that_logged("sent over gRPC") == 0


# --- what happens to sessions ------------------------------------------------------------------------------------


def test_the_connections_of_a_deleted_user_end_and_others_go_on(cluster: LoginCluster) -> None:
    server = cluster.kafka_bootstrap_servers.split(",")[1]
    cluster.set_password("dave", "dave's")
    with LoginConnection(server) as daves, LoginConnection(server) as alices:
        assert daves.log_in("SCRAM-SHA-256", "dave", "dave's").error_code == ErrorCode.NONE
        assert alices.log_in("SCRAM-SHA-256").error_code == ErrorCode.NONE
        cluster.set_password("dave", "another")
        # Connections of users that are gone are closed within a second.
        time.sleep(2)
        assert daves.is_served(), "as in Kafka, until the next login"
        cluster.delete_user("dave")
        assert daves.frame() is None
        assert alices.is_served()
    with LoginConnection(server) as connection:
        answer = connection.log_in("SCRAM-SHA-256", "dave", "another")
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


def test_a_user_of_the_same_name_gets_nothing_of_a_deleted_one(cluster: LoginCluster) -> None:
    server = cluster.kafka_bootstrap_servers.split(",")[1]
    cluster.set_password("erin", "erin's")
    with LoginConnection(server) as logged_in, LoginConnection(server) as logging_in:
        assert logged_in.log_in("SCRAM-SHA-256", "erin", "erin's").error_code == ErrorCode.NONE
        logging_in.shake_hands("SCRAM-SHA-256")
        scram = ScramClient(ScramMechanism.SHA_256, "erin", "erin's", "nonce")
        challenge = logging_in.authenticate(scram.first())
        assert challenge is not None
        cluster.delete_user("erin")
        cluster.set_password("erin", "another")
        # A broker that applied all of this in one step saw only the new user. It closes connections within a second.
        assert logged_in.frame() is None
        done = logging_in.authenticate(scram.final(bytes(challenge.auth_bytes)))
        assert done is not None
        assert done.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    with LoginConnection(server) as connection:
        assert connection.log_in("SCRAM-SHA-256", "erin", "another").error_code == ErrorCode.NONE


def test_the_mechanism_cannot_be_changed_in_the_middle(servers: str) -> None:
    with LoginConnection(servers.split(",", maxsplit=1)[0]) as connection:
        connection.shake_hands("SCRAM-SHA-256")
        answer = connection.shake_hands("PLAIN")
        assert answer is not None
        assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert connection.frame() is None


def test_raw_tokens_follow_the_oldest_handshake(servers: str) -> None:
    with LoginConnection(servers.split(",", maxsplit=1)[0]) as connection:
        answer = connection.shake_hands("PLAIN", version=0)
        assert answer is not None
        assert answer.error_code == ErrorCode.NONE
        assert connection.raw(f"\0{USER}\0{PASSWORD}".encode()) == b""
        assert connection.is_served()
    with LoginConnection(servers.split(",", maxsplit=1)[0]) as connection:
        connection.shake_hands("PLAIN", version=0)
        assert connection.raw(b"\0a\0b") is None
