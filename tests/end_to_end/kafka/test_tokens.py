"""Clients log in with tokens (OAUTHBEARER) at real nodes: each produces and consumes. Forged tokens log nobody in.

Three nodes, whose only listener of Kafka's protocol asks for a login. The keys of the authorization server are a file.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from aiokafka.abc import AbstractTokenProvider as AsyncTokenProvider
from kafka.net.sasl.oauth import AbstractTokenProvider

from kraft.client import Admin
from kraft.model.errors import ErrorCode
from kraft.server.identity.key_refresh import UNKNOWN_KEY_PAUSE_MS
from kraft.wire.schema.sasl_authenticate import SaslAuthenticateResponse
from tests.support.kafka.kafka_jars import java_command, kafka_jars
from tests.support.kafka.logged_in_clients import (
    VALUES,
    aiokafka_reads_what_it_wrote,
    assert_confluents_client_works,
    assert_kafka_python_works,
    assert_produced,
)
from tests.support.kafka.login_cluster import LoginCluster, LoginConnection, login_cluster
from tests.support.token_issuer import AUDIENCE, ISSUER, TokenIssuer, segment
from tests.support.waiting import until_every_broker_knows

REFUSED = b'{"status":"invalid_token"}'


@dataclass(frozen=True)
class Nodes:
    cluster: LoginCluster
    directory: Path
    issuer: TokenIssuer
    keys: Path
    ready_s: float
    """When they had the keys, on the clock of `time.monotonic`."""

    @property
    def servers(self) -> str:
        return self.cluster.kafka_bootstrap_servers

    @property
    def server(self) -> str:
        return self.servers.split(",", maxsplit=1)[0]


@pytest.fixture(name="nodes", scope="module")
def _nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    issuer, keys = TokenIssuer(), tmp_path_factory.mktemp("issuer") / "keys.json"
    directory = tmp_path_factory.mktemp("cluster")
    with login_cluster(
        directory,
        3,
        sasl_enabled_mechanisms="OAUTHBEARER,SCRAM-SHA-512",
        sasl_oauthbearer_jwks_endpoint_url=issuer.write(keys),
        sasl_oauthbearer_expected_issuer=ISSUER,
        sasl_oauthbearer_expected_audience=AUDIENCE,
    ) as cluster:
        yield Nodes(cluster, directory, issuer, keys, time.monotonic())


@pytest.fixture
def topic(nodes: Nodes, request: pytest.FixtureRequest) -> str:
    name: str = request.node.name
    with Admin(nodes.cluster.bootstrap_servers) as admin:
        admin.create_topic(name, 1, 3)
    until_every_broker_knows(nodes.cluster.bootstrap_servers, name)
    return name


def librdkafkas_login(nodes: Nodes, life_s: float = 3_600) -> dict[str, Any]:
    def token(_: str) -> tuple[str, float]:
        expires_s = time.time() + life_s
        return nodes.issuer.token("carol", exp=expires_s), expires_s

    return {
        "bootstrap.servers": nodes.servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "oauth_cb": token,
    }


# --- clients -----------------------------------------------------------------------------------------------------


def test_confluents_client(nodes: Nodes, topic: str) -> None:
    assert_confluents_client_works(librdkafkas_login(nodes), topic)


def test_kafka_python(nodes: Nodes, topic: str) -> None:
    class Provider(AbstractTokenProvider):  # type: ignore[misc]
        def token(self) -> str:
            return nodes.issuer.token("carol")

    login = {
        "bootstrap_servers": nodes.servers.split(","),
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauth_token_provider": Provider(),
    }
    assert_kafka_python_works(login, topic)


def test_aiokafka(nodes: Nodes, topic: str) -> None:
    class Provider(AsyncTokenProvider):  # type: ignore[misc]
        async def token(self) -> str:
            return nodes.issuer.token("carol")

    login = {
        "bootstrap_servers": nodes.servers,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauth_token_provider": Provider(),
    }
    assert asyncio.run(aiokafka_reads_what_it_wrote(login, topic)) == VALUES


@pytest.mark.slow
def test_javas_clients(nodes: Nodes, topic: str, tmp_path: Path) -> None:
    token, settings = tmp_path / "token", tmp_path / "client.properties"
    token.write_text(nodes.issuer.token("carol"))
    settings.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\n"
        "sasl.jaas.config=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;\n"
        "sasl.login.callback.handler.class="
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler\n"
        f"sasl.oauthbearer.token.endpoint.url={token.as_uri()}\n"
    )

    def run(program: str, *arguments: str, given: bytes = b"") -> bytes:
        command = java_command(kafka_jars(), program, "--bootstrap-server", nodes.servers, "--topic", topic, *arguments)
        # In a JVM of its own: Kafka's clients read a file only if a property of the whole JVM allows it.
        allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={token.as_uri()}"
        done = subprocess.run(
            [*command, "--command-config", str(settings)],
            input=given,
            capture_output=True,
            timeout=90,
            check=False,
            env={**os.environ, "JAVA_TOOL_OPTIONS": allowed},
        )
        assert done.returncode == 0, done.stderr.decode(errors="replace")
        return done.stdout

    run("org.apache.kafka.tools.ConsoleProducer", given=b"\n".join(VALUES) + b"\n")
    place = ["--partition", "0", "--offset", "earliest", "--max-messages", "3", "--timeout-ms", "60000"]
    assert run("org.apache.kafka.tools.consumer.ConsoleConsumer", *place).splitlines() == VALUES


# --- sessions ----------------------------------------------------------------------------------------------------


def say(connection: LoginConnection, token: str) -> SaslAuthenticateResponse:
    connection.shake_hands("OAUTHBEARER")
    answer = connection.authenticate(f"n,,\x01auth=Bearer {token}\x01\x01".encode())
    assert answer is not None
    return answer


def test_a_session_ends_with_its_token(nodes: Nodes) -> None:
    with LoginConnection(nodes.server) as connection:
        answer = say(connection, nodes.issuer.token(exp=time.time() + 3))
        assert answer.error_code == ErrorCode.NONE
        assert 1_000 < answer.session_lifetime_ms <= 3_000
        assert connection.is_served()
        time.sleep(3.1)
        assert not connection.is_served()


@pytest.mark.slow
def test_tokens_that_expire_under_load_cost_no_message(nodes: Nodes, topic: str) -> None:
    producer = confluent_kafka.Producer({**librdkafkas_login(nodes, life_s=3), "acks": "all"})
    until_s = time.monotonic() + 7
    while time.monotonic() < until_s:
        assert_produced(producer, topic)


def test_a_new_key_of_the_server_is_found_and_the_old_one_goes_on(nodes: Nodes) -> None:
    second = TokenIssuer("second")
    nodes.issuer.write(nodes.keys, second)
    # Only so long after the last fetch a key that is not known brings another one; no test above has such a key.
    time.sleep(max(0.0, nodes.ready_s + UNKNOWN_KEY_PAUSE_MS / 1_000 - time.monotonic()))
    for token in (second.token(), nodes.issuer.token()):
        with LoginConnection(nodes.server) as connection:
            assert say(connection, token).error_code == ErrorCode.NONE
            assert connection.is_served()


# --- forged tokens -----------------------------------------------------------------------------------------------


def forged(issuer: TokenIssuer) -> dict[str, str]:
    now_s = time.time()
    header, payload, signature = issuer.token().split(".")
    unsigned = segment({"alg": "none", "kid": issuer.key_id})
    return {
        "unsigned": f"{unsigned}.{payload}.",
        "unsigned-with-a-signature": f"{unsigned}.{payload}.{signature}",
        "changed": f"{header}.{urlsafe_b64encode(b'{}').decode().rstrip('=')}.{signature}",
        "other-key": TokenIssuer(issuer.key_id).token(),
        "unknown-key": TokenIssuer("unknown").token(),
        "audience": issuer.token(aud="another"),
        "issuer": issuer.token(iss="https://thief.example"),
        "expired": issuer.token(exp=now_s - 60),
        "future": issuer.token(iat=now_s + 600, nbf=now_s + 600, exp=now_s + 1_200),
        "huge": issuer.token(padding="x" * 40_000),
        "no-user": issuer.token(sub=None),
    }


def test_a_forged_token_tells_its_sender_nothing_and_is_not_printed(nodes: Nodes) -> None:
    answers = set()
    tokens = forged(nodes.issuer)
    for token in tokens.values():
        with LoginConnection(nodes.server) as connection:
            challenge = say(connection, token)
            last = connection.authenticate(b"\x01")
            assert last is not None
            answers.add((challenge.error_code, bytes(challenge.auth_bytes), last.error_code, last.error_message))
            assert connection.frame() is None
    assert answers == {(ErrorCode.NONE, REFUSED, ErrorCode.SASL_AUTHENTICATION_FAILED, REFUSED.decode())}
    logs = "".join(each.read_text() for each in nodes.directory.rglob("node-*.log"))
    assert "OAUTHBEARER login failed" in logs
    assert logs.count("OAUTHBEARER login failed") < len(tokens), "the rate of lines is limited"
    assert not any(part in logs for token in tokens.values() for part in token.split(".")[1:] if len(part) > 20)
