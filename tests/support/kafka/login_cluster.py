"""Nodes whose listener of Kafka's protocol asks for a login, and clients' settings for it."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

from kraft.client import Admin
from kraft.local import cluster_files
from kraft.local.cluster_files import HOST, NodePlan
from kraft.local.free_ports import ReservedPorts
from kraft.local.local_cluster import LocalCluster
from kraft.sasl.plain import plain_message
from kraft.sasl.scram import ScramMechanism
from kraft.sasl.scram_client import ScramClient
from kraft.server.identity import storage
from kraft.wire.declaration import Message
from kraft.wire.frame import decode_response
from kraft.wire.schema.metadata import MetadataRequest, MetadataResponse
from kraft.wire.schema.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kraft.wire.schema.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from tests.support.command_line import PROGRAMS
from tests.support.kafka.kafka_connection import Connection
from tests.support.kafka.python_clients import ASKS_AGAIN

MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
USER: Final = "alice"
PASSWORD: Final = "alice's secret, with = and ,"
LISTENER: Final = "SASL_PLAINTEXT"

M = TypeVar("M", bound=Message)


class LoginCluster:
    """Nodes with the listeners SASL_PLAINTEXT, GRPC and CONTROLLER."""

    def __init__(self, directory: Path, ports: list[int], settings: Mapping[str, str]) -> None:
        self.directory = directory
        count = len(ports) // 3
        self._kafka = ports[:count]
        plans = [
            self._plan(number, grpc, controller, settings)
            for number, (grpc, controller) in enumerate(zip(ports[count : 2 * count], ports[2 * count :], strict=True))
        ]
        cluster_files.write(directory, plans, storage.random_cluster_id())
        self.local = LocalCluster(directory, plans, launch=PROGRAMS.launch)

    def _plan(self, number: int, grpc: int, controller: int, settings: Mapping[str, str]) -> NodePlan:
        listeners = {LISTENER: self._kafka[number], "GRPC": grpc, "CONTROLLER": controller}
        own = {
            "listeners": ",".join(f"{name}://{HOST}:{port}" for name, port in listeners.items()),
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
            # Every client that reads in a group would wait for three seconds.
            "group.initial.rebalance.delay.ms": "0",
        }
        own |= {key: text.replace("NODE_ID", str(number + 1)) for key, text in settings.items()}
        return NodePlan(node_id=number + 1, grpc_port=grpc, controller_port=controller, settings=own)

    @property
    def bootstrap_servers(self) -> str:
        return self.local.bootstrap_servers

    @property
    def kafka_bootstrap_servers(self) -> str:
        return ",".join(f"{HOST}:{port}" for port in self._kafka)

    def set_password(self, user: str, password: str, *mechanisms: str) -> None:
        """Set it for these mechanisms of SCRAM; for both, if none is named."""
        with Admin(self.bootstrap_servers) as admin:
            for mechanism in mechanisms or MECHANISMS[1:]:
                admin.set_password(user, password, mechanism)

    def delete_user(self, user: str) -> None:
        with Admin(self.bootstrap_servers) as admin:
            for mechanism in MECHANISMS[1:]:
                admin.delete_password(user, mechanism)


@contextmanager
def login_cluster(directory: Path, nodes: int = 1, **settings: str) -> Iterator[LoginCluster]:
    """Start nodes, with `alice` among the users. `settings` have dots, or underscores in their place;
    NODE_ID in their values is the id of each node.
    """
    with ReservedPorts(3 * nodes) as ports:
        cluster = LoginCluster(
            directory,
            list(ports),
            {name if "." in name else name.replace("_", "."): text for name, text in settings.items()},
        )
        cluster.local.start()
        try:
            cluster.local.wait_ready()
            cluster.set_password(USER, PASSWORD)
            yield cluster
        finally:
            cluster.local.stop()


# --- settings of clients -----------------------------------------------------------------------------------------


def of_librdkafka(mechanism: str, user: str = USER, password: str = PASSWORD) -> dict[str, Any]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": password,
    }


def of_python(mechanism: str, user: str = USER, password: str = PASSWORD) -> dict[str, Any]:
    """Those of kafka-python and of aiokafka."""
    return {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": user,
        "sasl_plain_password": password,
        **ASKS_AGAIN,
    }


def of_java(mechanism: str, user: str = USER, password: str = PASSWORD) -> dict[str, str]:
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f"org.apache.kafka.common.security.{module} required "
        f'username="{user}" password="{password}";',
    }


# --- a bare connection -------------------------------------------------------------------------------------------


class LoginConnection(Connection):
    """Requests by hand."""

    def ask(self, request: Message, version: int, kind: type[M]) -> M | None:
        """Return the response; None if the other side has closed."""
        self.send(request, version)
        frame = self.frame()
        return None if frame is None else decode_response(kind, version, frame)[1]

    def shake_hands(self, mechanism: str, version: int = 1) -> SaslHandshakeResponse | None:
        return self.ask(SaslHandshakeRequest(mechanism=mechanism), version, SaslHandshakeResponse)

    def authenticate(self, message: bytes, version: int = 2) -> SaslAuthenticateResponse | None:
        return self.ask(SaslAuthenticateRequest(auth_bytes=message), version, SaslAuthenticateResponse)

    def is_served(self) -> bool:
        """Return whether a request is answered that needs a login; False if the other side closes instead."""
        request = MetadataRequest(topics=(), allow_auto_topic_creation=False)
        return self.ask(request, 4, MetadataResponse) is not None

    def raw(self, token: bytes) -> bytes | None:
        self.socket.sendall(struct.pack(">i", len(token)) + token)
        return self.frame()

    def log_in(self, mechanism: str = "PLAIN", user: str = USER, password: str = PASSWORD) -> SaslAuthenticateResponse:
        self.shake_hands(mechanism)
        if mechanism == "PLAIN":
            done = self.authenticate(plain_message(user, password))
        else:
            client = ScramClient(ScramMechanism(mechanism), user, password, "nonce")
            challenge = self.authenticate(client.first())
            assert challenge is not None
            done = self.authenticate(client.final(bytes(challenge.auth_bytes)))
        assert done is not None
        return done
