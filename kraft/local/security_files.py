"""Files that secure a cluster: a certificate authority, certificates of nodes, an administrator, and client settings.

All are in one directory, which is for its owner only, as each file is. None is ever overwritten: made again, the files
that are there are kept and used, and the missing ones are made. So a node is added, or its certificate renewed, by
making the files again.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Final

from msgspec import Struct

from kraft.metadata.user_decisions import password_upsertion
from kraft.model.principal import USER
from kraft.runtime.disk import make_directories
from kraft.runtime.private_files import create_once
from kraft.sasl.scram import ITERATIONS_MIN, SALT_BYTES, ScramMechanism
from kraft.server.config import properties
from kraft.server.config.access_settings import NODE_ID, STANDARD_AUTHORIZER
from kraft.server.config.loading import ConfigError
from kraft.server.identity import machine_secret
from kraft.tls import authority
from kraft.tls.store_files import StoreError, read_key_store
from kraft.tls.stores import KeyStoreFile
from kraft.wire.schema.alter_user_scram_credentials import ScramCredentialUpsertion

ADMIN: Final = "admin"

MECHANISM: Final = "SCRAM-SHA-512"

AUTHORITY_VALIDITY: Final = timedelta(days=3650)

LOCAL_NODE: Final = "localhost"
"""The name of the files that all nodes of a cluster on one machine share."""

HOSTS_OF_EACH_MACHINE: Final = ("localhost", "127.0.0.1", "::1")
"""A node is reached by these from its own machine."""

_AUTHORITY_NAME: Final = "Kraft cluster authority"
_PASSWORD_BYTES: Final = 24
_OTHERS: Final = 0o077


class SecurityFilesError(ConfigError):
    """The files cannot be made; one line, with the remedy."""


class SecurityFiles(Struct, frozen=True):
    """Paths of the files, whether they exist or not."""

    directory: Path

    @property
    def authority_key(self) -> Path:
        return self.directory / "ca.key"

    @property
    def authority(self) -> Path:
        """Path of the certificate that clients and nodes trust."""
        return self.directory / "ca.pem"

    @property
    def secret(self) -> Path:
        return self.directory / "cluster.secret"

    @property
    def password(self) -> Path:
        """Path of the administrator's password."""
        return self.directory / f"{ADMIN}.password"

    @property
    def client(self) -> Path:
        """Path of the administrator's settings, by the keys of Kafka's clients."""
        return self.directory / "client.properties"

    def keystore(self, node: str) -> Path:
        """Return the path of a node's private key and certificate."""
        return self.directory / f"{node}.pem"

    def node(self, node: str) -> Path:
        """Return the path of the settings that a node's configuration file needs."""
        return self.directory / f"{node}.properties"

    @property
    def audit_log(self) -> Path:
        """Path of each node's audit log, which is for the same user only."""
        return self.directory / f"audit-{NODE_ID}.log"

    def node_settings(self, node: str) -> dict[str, str]:
        """Return settings of a node, by Kafka's keys; listeners of Kafka's protocol are named SASL_SSL."""
        return {
            "listener.security.protocol.map": "SASL_SSL:SASL_SSL,GRPC:SASL_SSL,CONTROLLER:SSL",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.keystore(node)),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority),
            "cluster.secret.file": str(self.secret),
            "authorizer.class.name": STANDARD_AUTHORIZER,
            "super.users": f"{USER}:{ADMIN}",
            "audit.log.path": str(self.audit_log),
        }

    def admin_argument(self) -> str:
        """Return the argument of `kraft storage format --add-scram`, without the password itself."""
        return f'{MECHANISM}=[name={ADMIN},password-file="{self.password}"]'

    def admin_password(self) -> str:
        return self.password.read_text(encoding="utf-8").rstrip("\r\n")

    def admin(self) -> ScramCredentialUpsertion:
        """Return what a new cluster keeps of the administrator's password."""
        salt = secrets.token_bytes(SALT_BYTES)
        return password_upsertion(ADMIN, ScramMechanism(MECHANISM), self.admin_password(), salt, ITERATIONS_MIN)

    def client_settings(self) -> dict[str, str]:
        """Return the settings of a client that logs in as the administrator. The password is among them."""
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": MECHANISM,
            "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
            f'username="{ADMIN}" password="{self.admin_password()}";',
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority),
        }


class MadeFile(Struct, frozen=True):
    """A file and what it holds. `created` is False if it was there."""

    path: Path
    content: str
    created: bool


def make(
    directory: Path, nodes: Iterable[Sequence[str]], now: datetime, validity: timedelta = AUTHORITY_VALIDITY
) -> tuple[SecurityFiles, list[MadeFile]]:
    """Make the files that are missing. Each of `nodes` has the names and addresses of one, the first for its files.

    Raises SecurityFilesError.
    """
    files = SecurityFiles(directory.absolute())
    try:
        _prepare(files.directory)
        return files, _made(files, list(nodes), now, validity)
    except OSError as error:
        raise SecurityFilesError(
            f"{error.filename or directory}: {error.strerror}: choose another directory, or correct its permissions"
        ) from None
    except StoreError as error:
        raise SecurityFilesError(f"{directory}: {error}") from None


def make_here(directory: Path) -> SecurityFiles:
    """Make the files of a cluster whose nodes are all on this machine. Raises SecurityFilesError."""
    return make(directory, [[LOCAL_NODE]], datetime.now(UTC))[0]


def _made(files: SecurityFiles, nodes: list[Sequence[str]], now: datetime, validity: timedelta) -> list[MadeFile]:
    made = []

    def make_one(path: Path, content: str, data: Callable[[], bytes]) -> None:
        # Made only if it is missing: each takes what the ones before it hold.
        made.append(MadeFile(path, content, not path.exists() and create_once(path, data())))

    if not files.authority.exists():
        # The key may be kept elsewhere once there is a certificate.
        make_one(files.authority_key, "private key of the authority: keep it off the nodes", authority.new_key)
    make_one(
        files.authority,
        "certificate of the authority, for clients and nodes",
        lambda: authority.authority_certificate(
            files.authority_key.read_bytes(), _AUTHORITY_NAME, now, AUTHORITY_VALIDITY
        ),
    )
    made.append(
        MadeFile(files.secret, "secret of the cluster, the same on all nodes", machine_secret.write_new(files.secret))
    )
    make_one(
        files.password,
        f"password of user {ADMIN}",
        f"{secrets.token_urlsafe(_PASSWORD_BYTES)}\n".encode,
    )
    make_one(
        files.client,
        f"settings of clients that log in as {ADMIN}, with the password",
        lambda: properties.serialize(files.client_settings()),
    )
    for hosts in nodes:
        name = hosts[0]
        make_one(
            files.keystore(name),
            f"private key and certificate of {name}",
            partial(_keystore, files, hosts, now, validity),
        )
        make_one(
            files.node(name),
            f"settings for the configuration file of {name}",
            partial(properties.serialize, files.node_settings(name), "For the node's own file, with its listeners."),
        )
    return made


def _keystore(files: SecurityFiles, hosts: Sequence[str], now: datetime, validity: timedelta) -> bytes:
    if not files.authority_key.exists():
        raise SecurityFilesError(
            f"{files.authority_key} is missing, and has to sign the certificate of {hosts[0]}: bring it back"
        )
    key = authority.new_key()
    own_hosts = list(dict.fromkeys((*hosts, *HOSTS_OF_EACH_MACHINE)))
    signer = (files.authority_key.read_bytes(), files.authority.read_bytes())
    return key + authority.node_certificate(signer, key, own_hosts, now, validity)


def end_of_validity(keystore: Path) -> datetime:
    """Return when a node's certificate expires. Raises SecurityFilesError."""
    try:
        return authority.end_of_validity(read_key_store(KeyStoreFile(path=keystore)).certificates)
    except StoreError as error:
        raise SecurityFilesError(str(error)) from None


def _prepare(directory: Path) -> None:
    make_directories(directory)
    if directory.stat().st_mode & _OTHERS:
        raise SecurityFilesError(f"{directory} is open to other users: run 'chmod 700 {directory}', or choose another")
