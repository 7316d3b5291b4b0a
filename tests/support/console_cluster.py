"""A cluster with users of several rights, a console for it, and everybody's browser, logged in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kraft.client import Admin
from kraft.metadata.acls import AclEntry
from kraft.model.access import Operation, ResourceType
from tests.support.acl_entries import entry
from tests.support.console_browser import Answer, Browser, console, token_in
from tests.support.kafka.access_rules import AUTHORIZED
from tests.support.kafka.login_cluster import LoginCluster, login_cluster

PASSWORD: Final = "a password, with = and ,"

USERS: Final = ("nobody", "viewer", "operator", "root")
"""The first has not logged in, and the last is the administrator."""


def rights(topic: str) -> list[AclEntry]:
    """Return what lets the viewer see one topic, and the operator everything."""
    read = (Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS)
    everything = [
        (ResourceType.TOPIC, "*", Operation.DESCRIBE),
        (ResourceType.TOPIC, "*", Operation.DESCRIBE_CONFIGS),
        (ResourceType.GROUP, "*", Operation.DESCRIBE),
        (ResourceType.CLUSTER, "kafka-cluster", Operation.DESCRIBE),
    ]
    return [
        *(entry(topic, each, principal="User:viewer") for each in read),
        *(entry(name, each, principal="User:operator", resource_type=kind) for kind, name, each in everything),
    ]


@contextmanager
def cluster_of_users(directory: Path, nodes: int, entries: list[AclEntry], **settings: str) -> Iterator[LoginCluster]:
    with login_cluster(directory, nodes, **AUTHORIZED, **settings) as cluster:
        for user in USERS[1:]:
            cluster.set_password(user, PASSWORD, "SCRAM-SHA-512")
        with Admin(cluster.bootstrap_servers) as admin:
            admin.create_acls(entries)
        yield cluster


def console_settings(cluster: LoginCluster) -> dict[str, str]:
    """Return the console's file: `prod` asks for a login by Kafka's protocol, `open` is for everybody, by gRPC."""
    return {
        "clusters": "prod,open",
        "cluster.prod.bootstrap.servers": cluster.kafka_bootstrap_servers,
        "cluster.prod.wire.protocol": "kafka",
        "cluster.prod.security.protocol": "SASL_PLAINTEXT",
        "cluster.prod.sasl.mechanism": "SCRAM-SHA-512",
        "cluster.open.bootstrap.servers": cluster.bootstrap_servers,
    }


def everybody(port: int) -> dict[str, Browser]:
    """Return a browser for each of the users, logged in to `prod`."""
    found = {user: Browser(port) for user in USERS}
    for user in USERS[1:]:
        answer = found[user].log_in("prod", user, PASSWORD)
        assert (answer.status, answer.headers["location"]) == (303, "/clusters/prod")
    return found


@dataclass(frozen=True)
class ConsoleCluster:
    cluster: LoginCluster
    browsers: Mapping[str, Browser]

    def administrator(self, name: str) -> Browser:
        """Return who may do everything at `prod`, or at `open`."""
        return self.browsers["root" if name == "prod" else "nobody"]


@contextmanager
def console_cluster(directory: Path, nodes: int, entries: list[AclEntry], **settings: str) -> Iterator[ConsoleCluster]:
    """Run nodes, with these settings besides, and a console.

    The administrator's browser is `root`, and everybody's is at `open`, too.
    """
    with (
        cluster_of_users(directory / "cluster", nodes, entries, **settings) as cluster,
        console(directory, console_settings(cluster)) as port,
    ):
        yield ConsoleCluster(cluster, everybody(port))


def sent(browser: Browser, path: str, **fields: str) -> Answer:
    """Send a form to the path, with the token of this browser's forms."""
    cluster = "/".join(path.split("/")[:3])
    token = token_in(browser.get(f"{cluster}/topics-new?topic=any").text)
    return browser.post(path, {"token": token, **fields})
