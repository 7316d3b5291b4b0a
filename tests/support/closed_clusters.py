"""Clusters whose clients have to log in, with TLS, and the settings of clients of theirs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kraft.client import Admin
from kraft.client.cluster.network import Network
from kraft.local.node_dialling import dial_as_node
from kraft.rpc.peers import PeerConnections
from kraft.server.config.loading import load
from kraft.server.config.properties import serialize
from kraft.testing import Cluster
from tests.support.certificates import Authority, Stores

PASSWORD = "a password, with = and a ,"


@dataclass(frozen=True, slots=True)
class ClosedCluster:
    cluster: Cluster
    stores: Stores

    @property
    def bootstrap_servers(self) -> str:
        return self.cluster.bootstrap_servers

    def settings(
        self, user: str = "alice", password: str = PASSWORD, mechanism: str = "SCRAM-SHA-512"
    ) -> dict[str, Any]:
        """Return the settings of a client that logs in, by Kafka's names."""
        return {
            **login_settings("SASL_SSL", user, password, mechanism),
            "ssl.truststore.location": str(self.stores.truststore),
            "ssl.truststore.type": "PEM",
        }

    def command_config(self, file: Path, **login: str) -> Path:
        file.touch(mode=0o600)
        file.write_bytes(serialize(self.settings(**login)))
        return file

    def add_user(self, user: str) -> None:
        add_user(self.cluster, user)

    def delete_user(self, user: str) -> None:
        with admin_of_node(self.cluster) as admin:
            for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
                admin.delete_password(user, mechanism)


def login_settings(
    protocol: str, user: str = "alice", password: str = PASSWORD, mechanism: str = "SCRAM-SHA-512"
) -> dict[str, Any]:
    """Return the settings of a client that logs in, without those of TLS."""
    module = "plain.Plain" if mechanism == "PLAIN" else "scram.Scram"
    return {
        "security.protocol": protocol,
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f"org.apache.kafka.common.security.{module}LoginModule required "
        f'username="{user}" password="{password}";',
    }


def add_user(cluster: Cluster, user: str) -> None:
    """Add a user with the usual password; each broker knows it a moment later."""
    with admin_of_node(cluster) as admin:
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            admin.set_password(user, PASSWORD, mechanism)


def admin_of_node(cluster: Cluster) -> Admin:
    """Return an admin client that is admitted as a node is: there may be no user yet."""
    config = load(cluster.nodes[0].config_path)
    network = Network(connect=lambda: PeerConnections(dial_as_node(config)))
    return Admin(cluster.bootstrap_servers, network=network)


@contextmanager
def closed_cluster(
    directory: Path, nodes: int = 3, overrides: Mapping[str, str] | None = None, *, certificate_days: int = 60
) -> Iterator[ClosedCluster]:
    """Run a cluster with the user alice."""
    stores = Authority(directory).certify("node", days=certificate_days)
    settings = {
        "listener.security.protocol.map": "GRPC:SASL_SSL,PLAINTEXT:SASL_SSL",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512,PLAIN",
        "ssl.keystore.location": str(stores.keystore),
        "ssl.truststore.location": str(stores.truststore),
        # A member hears of its partitions with a heartbeat, and they are assigned a second after its first one.
        "group.consumer.min.heartbeat.interval.ms": "500",
        "group.consumer.heartbeat.interval.ms": "500",
        "group.consumer.assignment.interval.ms": "0",
        **(overrides or {}),
    }
    with Cluster(nodes, overrides=settings) as cluster:
        closed = ClosedCluster(cluster, stores)
        closed.add_user("alice")
        yield closed
