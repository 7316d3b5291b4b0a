"""Files of a cluster on one machine: a secret, and for each node a configuration, a formatted directory and a log.

In the cluster's directory, node 1 has `node-1.properties`, its data in `node-1/` and its output in `node-1.log`. All
nodes share `cluster.secret`. A secured cluster has its secret, its certificates and its administrator in `security/`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field

from kraft.local.security_files import LOCAL_NODE, SecurityFiles
from kraft.model.ids import BrokerId
from kraft.runtime.disk import make_directories
from kraft.server.config import loading, properties
from kraft.server.config.group_settings import OFFSETS_REPLICATION_FACTOR, OFFSETS_REPLICATION_FACTOR_DEFAULT
from kraft.server.config.node_config import NodeConfig
from kraft.server.config.values import CONTROLLER, GRPC, PLAINTEXT, Role, Voter
from kraft.server.controller import bootstrap
from kraft.server.identity import machine_secret, storage

HOST = "127.0.0.1"
"""A number, because a name could resolve to an IPv6 address that the machine does not have."""


class NodePlan(Struct, frozen=True, kw_only=True):
    """Plan of one node: its ports determine its roles. `settings` override those that follow from the plan."""

    node_id: int
    grpc_port: int | None
    controller_port: int | None
    kafka_port: int | None = None
    """Requires a `grpc_port`: a broker serves both."""

    kafka_listener: str = PLAINTEXT
    """Name of the listener at `kafka_port`."""

    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def grpc_address(self) -> str | None:
        return None if self.grpc_port is None else f"{HOST}:{self.grpc_port}"

    @property
    def kafka_address(self) -> str | None:
        return None if self.kafka_port is None else f"{HOST}:{self.kafka_port}"

    @property
    def is_voter(self) -> bool:
        return self.controller_port is not None


def config_file(directory: Path, node_id: int) -> Path:
    return directory / f"node-{node_id}.properties"


def secret_file(directory: Path) -> Path:
    return directory / "cluster.secret"


def security_directory(directory: Path) -> Path:
    return directory / "security"


def log_file(directory: Path, node_id: int) -> Path:
    return directory / f"node-{node_id}.log"


def write(directory: Path, plans: Sequence[NodePlan], cluster_id: str, security: SecurityFiles | None = None) -> None:
    """Write every node's configuration, and format its directory if necessary.

    With `security`, a new cluster begins with its administrator. Raises ConfigError or StorageError for settings that a
    node cannot start with.
    """
    shared = _shared_settings(plans, cluster_id)
    make_directories(directory)
    if security is None:
        machine_secret.write_new(secret_file(directory))
        shared["cluster.secret.file"] = str(secret_file(directory))
    else:
        shared |= security.node_settings(LOCAL_NODE)
    users = [] if security is None else [security.admin()]
    for plan in plans:
        file = config_file(directory, plan.node_id)
        settings = shared | _settings(directory, plan)
        file.write_bytes(
            properties.serialize(settings, comment="Overwritten by the launcher of this cluster at each start.")
        )
        config = loading.load(file)
        if users and storage.read_meta(config.log_dir) is None:
            bootstrap.format_with_users(config, cluster_id, users)
        else:
            storage.format(config, cluster_id)


def read(directory: Path) -> list[NodeConfig]:
    """Return the configurations that `write` wrote, in the order of node ids; empty without a cluster."""
    configs = [loading.load(file) for file in directory.glob("node-*.properties")]
    return sorted(configs, key=lambda node: node.node_id)


def _shared_settings(plans: Sequence[NodePlan], cluster_id: str) -> dict[str, str]:
    """Return the settings that all nodes have in common."""
    voters = ",".join(
        str(Voter(BrokerId(plan.node_id), HOST, plan.controller_port))
        for plan in plans
        if plan.controller_port is not None
    )
    shared = {"cluster.id": cluster_id, "controller.quorum.voters": voters}
    brokers = sum(plan.grpc_port is not None for plan in plans)
    if brokers < OFFSETS_REPLICATION_FACTOR_DEFAULT:
        shared[OFFSETS_REPLICATION_FACTOR] = str(max(brokers, 1))
    return shared


def _settings(directory: Path, plan: NodePlan) -> dict[str, str]:
    listeners = [
        (Role.BROKER, plan.kafka_listener, plan.kafka_port),
        (Role.BROKER, GRPC, plan.grpc_port),
        (Role.CONTROLLER, CONTROLLER, plan.controller_port),
    ]
    served = [(role, f"{name}://{HOST}:{port}") for role, name, port in listeners if port is not None]
    own = {
        "process.roles": ",".join(dict.fromkeys(role for role, _ in served)),
        "node.id": str(plan.node_id),
        "listeners": ",".join(listener for _, listener in served),
        "log.dirs": str(directory / f"node-{plan.node_id}"),
    }
    return own | dict(plan.settings)
