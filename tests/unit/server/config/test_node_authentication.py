"""Nobody on the network is taken for a node of the cluster."""

from __future__ import annotations

import pytest

from tests.unit.server.config.files import COMBINED, Load, Refuse, warned_of

OPEN_CONTROLLER = "listeners=GRPC://localhost:9094,CONTROLLER://0.0.0.0:9093\n"
OPEN_BOTH = (
    "listeners=GRPC://0.0.0.0:9094,CONTROLLER://0.0.0.0:9093\nadvertised.listeners=GRPC://broker-1.example:9094\n"
)
FAR_VOTERS = "controller.quorum.voters=1@localhost:9093,2@kraft-2.example:9093\n"
TLS = (
    "listener.security.protocol.map=CONTROLLER:SSL\nssl.keystore.type=PEM\nssl.keystore.location=own.pem\n"
    "ssl.truststore.type=PEM\nssl.truststore.location=trusted.pem\n"
)
SECRET = "cluster.secret.file=secret\n"
ALLOWED = "allow.unauthenticated.listeners=GRPC\n"


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (
            OPEN_CONTROLLER,
            "CONTROLLER://0.0.0.0:9093 is open to other machines, so anybody there could join the quorum",
        ),
        (
            OPEN_CONTROLLER,
            "set cluster.secret.file, or listener.security.protocol.map=CONTROLLER:SSL with ssl.keystore",
        ),
        (FAR_VOTERS, "2@kraft-2.example:9093 is on another machine: set cluster.secret.file, or listener.security"),
        (
            "process.roles=broker\nnode.id=4\nlisteners=GRPC://localhost:9094\ncontroller.quorum.voters=1@10.0.0.1:1\n",
            "1@10.0.0.1:1 is on another machine: set cluster.secret.file",
        ),
        (OPEN_BOTH + TLS + ALLOWED, "copy partitions on other listeners: set cluster.secret"),
        (
            "listener.security.protocol.map=CONTROLLER:SSL\n",
            "CONTROLLER:SSL needs a PEM file: set ssl.keystore.location",
        ),
        (
            TLS.replace("ssl.truststore.location=trusted.pem\n", ""),
            "CONTROLLER:SSL needs a PEM file: set ssl.truststore.location",
        ),
        (TLS + "ssl.keystore.type=PKCS12\n", "CONTROLLER:SSL needs a PEM file: set ssl.keystore.location"),
        (TLS + "ssl.client.auth=none\n", "with TLS, nodes always have to show certificates: set listener.name.control"),
        (TLS + "listener.name.controller.ssl.client.auth=requested\n", "nodes always have to show certificates"),
        ("ssl.endpoint.identification.algorithm=\n", "expected https: a certificate always has to name"),
        ("listener.security.protocol.map=CONTROLLER:SASL_SSL\n", "CONTROLLER can only be mapped to PLAINTEXT or SSL"),
        ("listener.security.protocol.map=CONTROLLER\n", "expected NAME:PROTOCOL, separated by commas"),
        ("cluster.secret.file=\n", "expected the path of one file"),
    ],
)
def test_a_node_that_would_accept_anybody_as_a_node_of_its_cluster_is_refused(
    refused: Refuse, lines: str, expected: str
) -> None:
    assert expected in refused(COMBINED + lines)


@pytest.mark.parametrize(
    "lines",
    [
        "",
        "listeners=GRPC://[::1]:9094,CONTROLLER://127.0.0.2:9093\n",
        OPEN_CONTROLLER + SECRET,
        OPEN_CONTROLLER + TLS,
        FAR_VOTERS + SECRET,
        FAR_VOTERS + TLS,
        TLS + "ssl.client.auth=none\nlistener.name.controller.ssl.client.auth=required\n",
    ],
)
def test_a_node_with_a_secret_or_certificates_or_alone_on_its_machine_is_accepted(load_text: Load, lines: str) -> None:
    assert warned_of(load_text(COMBINED + lines)) == []
