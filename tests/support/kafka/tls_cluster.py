"""Nodes whose listeners of Kafka's protocol have TLS, and clients' settings for them."""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from kraft.client import Admin
from kraft.local import cluster_files
from kraft.local.cluster_files import HOST, NodePlan
from kraft.local.free_ports import ReservedPorts
from kraft.local.local_cluster import LocalCluster
from kraft.server.identity import storage
from tests.support.certificates import Authority, Stores
from tests.support.command_line import PROGRAMS
from tests.support.kafka.python_clients import ASKS_AGAIN

TLS: Final = "SSL"
"""Clients show no certificate."""
MUTUAL: Final = "MUTUAL"
"""They have to."""
LOGIN: Final = "SASL_SSL"
"""They log in inside TLS."""

USER: Final = "alice"
PASSWORD: Final = "alice's secret"


class TlsCluster:
    """Nodes with the listeners SSL, MUTUAL, SASL_SSL, GRPC and CONTROLLER. The directory has their stores."""

    def __init__(self, directory: Path, ports: list[int]) -> None:
        self.directory = directory
        self.authority = Authority(directory / "authority")
        self.client = self.authority.certify("client")
        count = len(ports) // 5
        self._ports = {name: ports[at * count :][:count] for at, name in enumerate((TLS, MUTUAL, LOGIN))}
        plans = [self._plan(number, ports[3 * count + number], ports[4 * count + number]) for number in range(count)]
        cluster_files.write(directory, plans, storage.random_cluster_id())
        self.local = LocalCluster(directory, plans, launch=PROGRAMS.launch)

    def _plan(self, number: int, grpc: int, controller: int) -> NodePlan:
        own = {name: ports[number] for name, ports in self._ports.items()}
        listeners = {**own, "GRPC": grpc, "CONTROLLER": controller}
        self.renew(number)
        settings = {
            "listeners": ",".join(f"{name}://{HOST}:{port}" for name, port in listeners.items()),
            "listener.security.protocol.map": "MUTUAL:SSL",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.keystore(number)),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority.certificate),
            "listener.name.mutual.ssl.client.auth": "required",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
            # Every client that reads in a group would wait for three seconds.
            "group.initial.rebalance.delay.ms": "0",
        }
        return NodePlan(node_id=number + 1, grpc_port=grpc, controller_port=controller, settings=settings)

    def keystore(self, number: int) -> Path:
        return self.directory / f"node-{number}.pem"

    def renew(self, number: int) -> None:
        """Give a node another key and certificate."""
        os.replace(self.authority.certify(f"node-{number}").keystore, self.keystore(number))

    @property
    def bootstrap_servers(self) -> str:
        return self.local.bootstrap_servers

    def servers(self, listener: str) -> str:
        return ",".join(f"{HOST}:{port}" for port in self._ports[listener])

    def port(self, listener: str, number: int = 0) -> int:
        return self._ports[listener][number]

    def shown(self, number: int = 0) -> str:
        """Return the certificate that a node shows to who connects now."""
        return ssl.get_server_certificate((HOST, self.port(TLS, number)), timeout=30)


@contextmanager
def tls_cluster(directory: Path, nodes: int) -> Iterator[TlsCluster]:
    with ReservedPorts(5 * nodes) as ports:
        cluster = TlsCluster(directory, list(ports))
        cluster.local.start()
        try:
            cluster.local.wait_ready()
            with Admin(cluster.bootstrap_servers) as admin:
                admin.set_password(USER, PASSWORD, "SCRAM-SHA-512")
            yield cluster
        finally:
            cluster.local.stop()


# --- settings of clients -----------------------------------------------------------------------------------------


def of_librdkafka(cluster: TlsCluster, listener: str, shown: Stores | None = None) -> dict[str, Any]:
    found: dict[str, Any] = {
        "bootstrap.servers": cluster.servers(listener),
        "security.protocol": "SASL_SSL" if listener == LOGIN else "SSL",
        "ssl.ca.location": str(cluster.authority.certificate),
    }
    if shown is not None:
        found |= {"ssl.certificate.location": str(shown.keystore), "ssl.key.location": str(shown.keystore)}
    if listener == LOGIN:
        found |= {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": USER, "sasl.password": PASSWORD}
    return found


def of_python(cluster: TlsCluster, listener: str, shown: Stores | None = None) -> dict[str, Any]:
    """Those of kafka-python."""
    found: dict[str, Any] = {
        "bootstrap_servers": cluster.servers(listener).split(","),
        "security_protocol": "SASL_SSL" if listener == LOGIN else "SSL",
        "ssl_cafile": str(cluster.authority.certificate),
        **ASKS_AGAIN,
    }
    if shown is not None:
        found |= {"ssl_certfile": str(shown.keystore), "ssl_keyfile": str(shown.keystore)}
    if listener == LOGIN:
        found |= {"sasl_mechanism": "PLAIN", "sasl_plain_username": USER, "sasl_plain_password": PASSWORD}
    return found


def of_java(cluster: TlsCluster, listener: str, shown: Stores | None = None) -> dict[str, str]:
    found = {
        "security.protocol": "SASL_SSL" if listener == LOGIN else "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(cluster.authority.certificate),
    }
    if shown is not None:
        found |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(shown.keystore)}
    if listener == LOGIN:
        module = "org.apache.kafka.common.security.scram.ScramLoginModule"
        found |= {
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.jaas.config": f'{module} required username="{USER}" password="{PASSWORD}";',
        }
    return found
