"""Nodes that are secured by commands, from `kraft security init` on: no listener of theirs was ever open."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import CompletedProcess
from typing import Final

import pytest

from kraft.local.free_ports import ReservedPorts
from kraft.metadata.records import ScramCredentialSet, UnknownUsersKeySet
from kraft.server.controller import bootstrap
from kraft.server.identity.storage import BOOTSTRAP_FILE, random_cluster_id
from tests.support.command_line import run

NODES: Final = (1, 2, 3)


@dataclass
class SecuredNodes:
    """Three nodes with files of their own, and all that commands have printed."""

    directory: Path
    ports: list[int]
    cluster_id: str = field(default_factory=random_cluster_id)
    printed: str = ""

    @property
    def security(self) -> Path:
        return self.directory / "security"

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"localhost:{port}" for port in self.ports[3:6])

    def file(self, node: int) -> Path:
        return self.directory / f"node-{node}.properties"

    def data(self, node: int) -> Path:
        return self.directory / f"node-{node}"

    def kraft(self, *arguments: str | Path, stdin: bytes = b"") -> CompletedProcess[str]:
        done = run(*arguments, stdin=stdin)
        self.printed += done.stdout + done.stderr
        return done

    def client(self, *arguments: str | Path, config: Path | None = None, stdin: bytes = b"") -> CompletedProcess[str]:
        """Run a command of a client, by default the administrator."""
        config = config or self.security / "client.properties"
        servers = ("--bootstrap-server", self.bootstrap_servers)
        return self.kraft(*arguments, *servers, "--command-config", config, stdin=stdin)

    def write_files(self) -> None:
        voters = ",".join(f"{node}@localhost:{self.ports[5 + node]}" for node in NODES)
        settings = (self.security / "localhost.properties").read_text()
        for node in NODES:
            kafka, grpc, controller = self.ports[node - 1 :: len(NODES)]
            self.file(node).write_text(
                f"process.roles=broker,controller\nnode.id={node}\ncluster.id={self.cluster_id}\n"
                f"listeners=SASL_SSL://localhost:{kafka},GRPC://localhost:{grpc},CONTROLLER://localhost:{controller}\n"
                f"controller.quorum.voters={voters}\nlog.dirs={self.data(node)}\n{settings}"
            )

    def format(self, node: int) -> CompletedProcess[str]:
        user = f"SCRAM-SHA-512=[name=admin,password-file={self.security / 'admin.password'}]"
        return self.kraft("storage", "format", "-c", self.file(node), "--add-scram", user)

    def start(self) -> None:
        with ThreadPoolExecutor(len(NODES)) as threads:
            started = list(threads.map(lambda node: self.kraft("server", "start", self.file(node), "--daemon"), NODES))
        assert [each.returncode for each in started] == [0, 0, 0], self.printed

    def stop(self) -> None:
        for node in NODES:
            self.kraft("server", "stop", "-c", self.file(node))

    def secrets(self) -> dict[str, bytes]:
        """Return what nobody may print, by what it is."""
        found = {
            name: (self.security / name).read_bytes().strip()
            for name in ("admin.password", "cluster.secret", "ca.key", "localhost.pem")
        }
        # The key is what is secret of it.
        found["localhost.pem"] = found["localhost.pem"].split(b"-----")[2].strip()
        found["ca.key"] = found["ca.key"].split(b"-----")[2].strip()
        for node in NODES:
            for record in bootstrap.read(self.data(node)):
                if isinstance(record, ScramCredentialSet):
                    found |= {
                        f"{name} of node {node}": value
                        for name, value in (
                            ("salt", record.salt),
                            ("stored key", record.stored_key),
                            ("server key", record.server_key),
                        )
                    }
                elif isinstance(record, UnknownUsersKeySet):
                    found[f"key of node {node}"] = record.key
        return found


@contextmanager
def secured_nodes(directory: Path) -> Iterator[SecuredNodes]:
    """Make the files, and format the nodes; what the test starts is stopped."""
    with ReservedPorts(3 * len(NODES)) as ports:
        nodes = SecuredNodes(directory, list(ports))
        assert nodes.kraft("security", "init", nodes.security).returncode == 0
        nodes.write_files()
        for node in NODES:
            assert nodes.format(node).returncode == 0, nodes.printed
        try:
            yield nodes
        finally:
            nodes.stop()


@pytest.fixture(name="nodes", scope="module")
def _nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredNodes]:
    with secured_nodes(tmp_path_factory.mktemp("secured")) as nodes:
        yield nodes


def _forms(secret: bytes) -> list[str]:
    """Return how a secret may be printed."""
    escaped = "".join(f"\\x{byte:02x}" for byte in secret)
    shown = [repr(secret)[2:-1], secret.hex(), b64encode(secret).decode().rstrip("="), escaped, str(list(secret))]
    return [*shown, secret.decode()] if secret.isascii() else shown


@pytest.mark.slow
def test_the_first_login_works_and_nothing_that_is_secret_is_printed(nodes: SecuredNodes) -> None:
    secrets = nodes.secrets()
    assert len(secrets) == 4 + 3 * 4
    nodes.start()
    created = nodes.client("topics", "create", "orders", "--partitions", "1", "--replication-factor", "3")
    assert created.returncode == 0, created.stderr
    assert nodes.client("produce", "orders", stdin=b"1\n").returncode == 0
    read = nodes.client("consume", "orders", "--from-beginning", "--max-messages", "1")
    assert (read.returncode, read.stdout) == (0, "1\n")

    stranger = nodes.kraft("topics", "list", "--bootstrap-server", nodes.bootstrap_servers)
    assert stranger.returncode == 1
    wrong = nodes.directory / "wrong.properties"
    settings = (nodes.security / "client.properties").read_text()
    wrong.write_text(settings.replace((nodes.security / "admin.password").read_text().strip(), "wrong"))
    assert nodes.client("topics", "list", config=wrong).returncode == 1

    assert nodes.format(1).returncode == 1
    assert "is formatted already, and users are added when a node is formatted first" in nodes.printed

    # Everything that prints, with the files of nodes that run, and after they have stopped and written snapshots.
    for command in (
        ("users", "list"),
        ("cluster", "health"),
        ("quorum", "describe"),
        ("configs", "describe", "--broker", "1", "--all"),
        ("configs", "describe", "--broker", "1", "--all", "--output", "json"),
        ("brokers", "list", "--output", "json"),
        ("features", "describe"),
    ):
        nodes.client(*command)
    nodes.stop()
    for file in (path for node in NODES for path in (nodes.data(node) / "__cluster_metadata").rglob("*")):
        if file.is_file():
            nodes.kraft("metadata", "dump", file)
            nodes.kraft("metadata", "dump", file, "--output", "json")
    dumped = nodes.kraft("metadata", "dump", nodes.data(1) / BOOTSTRAP_FILE)
    assert dumped.returncode == 0
    assert "ScramCredentialSet user: admin" in dumped.stdout
    logs = "".join(path.read_text() for path in nodes.directory.glob("*.log"))
    assert logs
    told = [name for name, secret in secrets.items() for form in _forms(secret) if form in nodes.printed + logs]
    assert told == []
    assert nodes.printed.count("ScramCredentialSet") >= 3, "the journals were not dumped"


@pytest.mark.slow
def test_a_changed_password_outlives_a_restart_and_the_first_one_is_gone(nodes: SecuredNodes) -> None:
    nodes.start()
    file = nodes.directory / "new-password"
    file.write_text("a new password\n")
    changed = nodes.client("users", "set-password", "admin", "--password-file", file, "--mechanism", "SCRAM-SHA-512")
    assert changed.returncode == 0, changed.stderr
    nodes.stop()
    metadata = [nodes.data(node) / "__cluster_metadata" for node in NODES]
    for directory in metadata:
        directory.chmod(0o755)
    nodes.start()
    assert [directory.stat().st_mode & 0o777 for directory in metadata] == [0o700] * len(NODES)
    assert [node for node in NODES if (nodes.data(node) / BOOTSTRAP_FILE).exists()] == []
    assert nodes.client("topics", "list").returncode == 1
    new = nodes.directory / "new.properties"
    settings = (nodes.security / "client.properties").read_text()
    new.write_text(settings.replace((nodes.security / "admin.password").read_text().strip(), "a new password"))
    assert nodes.client("topics", "list", config=new).returncode == 0
