"""Clients of ours log in with tokens (OAUTHBEARER) at the GRPC listener of a real node, inside TLS."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kraft.client import Admin, ErrorCode, Producer, Refusal
from kraft.server.config.properties import serialize
from tests.support.closed_clusters import ClosedCluster, closed_cluster
from tests.support.command_line import run
from tests.support.token_issuer import AUDIENCE, ISSUER, TokenIssuer


@dataclass(frozen=True)
class Node:
    closed: ClosedCluster
    issuer: TokenIssuer

    def settings(self, **token: Any) -> dict[str, Any]:
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "OAUTHBEARER",
            "ssl.truststore.location": str(self.closed.stores.truststore),
            "ssl.truststore.type": "PEM",
            **token,
        }


@pytest.fixture(name="node", scope="module")
def _node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    issuer = TokenIssuer()
    settings = {
        "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": issuer.write(tmp_path_factory.mktemp("issuer") / "keys.json"),
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
    }
    with closed_cluster(tmp_path_factory.mktemp("node"), 1, settings) as closed:
        yield Node(closed, issuer)


def test_a_token_of_a_file_serves_programs_and_commands(node: Node, tmp_path: Path) -> None:
    token, file = tmp_path / "token", tmp_path / "client.properties"
    token.write_text(f"{node.issuer.token('carol')}\n")
    settings = node.settings(**{"sasl.oauthbearer.token.endpoint.url": token.as_uri()})
    servers = node.closed.bootstrap_servers
    with Admin(servers, **settings) as admin:
        admin.create_topic("of-a-file", 1, 1)
    file.write_bytes(serialize(settings))
    listed = run("topics", "list", "--bootstrap-server", servers, "--command-config", str(file))
    assert "of-a-file" in listed.stdout


@pytest.mark.slow
def test_each_login_calls_the_function_and_tokens_that_expire_cost_no_record(node: Node) -> None:
    given: list[str] = []

    def token() -> str:
        given.append(node.issuer.token("carol", exp=time.time() + 3))
        return given[-1]

    settings = node.settings(**{"sasl.oauth.token.provider": token})
    with Admin(node.closed.bootstrap_servers, **settings) as admin:
        admin.create_topic("of-a-function", 1, 1)
    before = len(given)
    with Producer(node.closed.bootstrap_servers, **settings) as producer:
        until_s = time.monotonic() + 8
        while time.monotonic() < until_s:
            producer.send("of-a-function", b"value").result(30)
    assert len(given) >= before + 3


def test_a_forged_token_is_refused_without_a_reason(node: Node) -> None:
    tokens = [
        TokenIssuer(node.issuer.key_id).token(),
        node.issuer.token(aud="another"),
        node.issuer.token(exp=time.time() - 60),
    ]
    said = set()
    for token in tokens:
        settings = node.settings(**{"sasl.oauth.token.provider": lambda token=token: token})
        with Admin(node.closed.bootstrap_servers, **settings) as admin, pytest.raises(Refusal) as refused:
            admin.list_topics()
        assert refused.value.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        said.add(str(refused.value))
    assert len(said) == 1, said
    assert "invalid_token" in said.pop()
