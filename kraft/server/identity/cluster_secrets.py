"""The secrets that the nodes of a cluster share, from their file; it may change while the node runs.

Nodes speak to each other as long as their files have a secret in common, so a secret is replaced one node after the
other: the new one is added on every node, then put first, and then the old one is removed.
"""

from __future__ import annotations

import asyncio
import secrets
from pathlib import Path
from typing import Final

import structlog

from kraft.rpc.introductions import ClusterSecrets
from kraft.server.config.node_authentication import spans_machines
from kraft.server.config.node_config import NodeConfig
from kraft.server.identity import machine_secret
from kraft.server.identity.credential_files import CredentialsError, read_private
from kraft.server.identity.machine_secret import NoPlaceForSecret
from kraft.tls.renewal import CHECK_PERIOD_S
from kraft.tls.watched_files import WatchedFiles

log = structlog.get_logger()

SECRET_CHARACTERS_MIN: Final = 32
SECRETS_MAX: Final = 4

_HOW_TO_CREATE_A_SECRET: Final = "create one with (umask 077; openssl rand -base64 32 > FILE) and copy it to every node"


class WatchedSecrets:
    """The secrets of one node. Connections that are open go on when they change."""

    def __init__(self, config: NodeConfig, cluster_id: str) -> None:
        """Find or create the file, and read it. Raises ConfigError."""
        self.secrets: ClusterSecrets | None = None
        """None if the nodes of the cluster use only certificates."""

        self._path = config.security.secret_file
        if self._path is None and not spans_machines(config):
            self._path = _file_of_this_machine(config, cluster_id)
            if self._path is None:
                self.secrets = ClusterSecrets([secrets.token_bytes(SECRET_CHARACTERS_MIN)])
        # Otherwise controllers use TLS, and no broker is reachable from other machines: `checks` made sure.
        self._files = WatchedFiles([] if self._path is None else [self._path])
        if self._path is not None:
            self.secrets = read_secrets(self._path)

    async def watch(self) -> None:
        """Check the file until cancelled."""
        while self._path is not None:
            await asyncio.sleep(CHECK_PERIOD_S)
            await self.check()

    async def check(self) -> None:
        """Use what the file holds, if it has changed. What cannot be used is logged, and the secrets stay."""
        # In a thread: a file system may be slow.
        found = await asyncio.to_thread(self._read_if_changed)
        if found is not None and self.secrets is not None and self.secrets.replace(found):
            # The ids are public: they let an operator compare nodes.
            ids = [secret.secret_id.hex() for secret in found.known]
            log.info("cluster secrets renewed", file=str(self._path), secret_ids=ids)

    def _read_if_changed(self) -> ClusterSecrets | None:
        if self._path is None or not self._files.have_changed():
            return None
        try:
            return read_secrets(self._path)
        except CredentialsError as error:
            log.error("cluster secrets not renewed", reason=str(error))
            return None


def read_secrets(path: Path) -> ClusterSecrets:
    """Read secrets, one per line: the first is sent, all are accepted. Raises CredentialsError."""
    content = read_private(path, "cluster.secret.file", forbidden=0o077, how_to_create=_HOW_TO_CREATE_A_SECRET)
    found = [line for each in content.splitlines() if (line := each.strip())]
    if not found:
        raise CredentialsError(f"cluster.secret.file: {path} is empty: {_HOW_TO_CREATE_A_SECRET}")
    if len(found) > SECRETS_MAX:
        raise CredentialsError(f"cluster.secret.file: {path} has more than {SECRETS_MAX} secrets: remove lines")
    if any(len(secret) < SECRET_CHARACTERS_MIN for secret in found):
        raise CredentialsError(
            f"cluster.secret.file: {path} has a secret of fewer than {SECRET_CHARACTERS_MIN} characters:"
            f" {_HOW_TO_CREATE_A_SECRET}"
        )
    return ClusterSecrets(found)


def _file_of_this_machine(config: NodeConfig, cluster_id: str) -> Path | None:
    """Return the file that the nodes of this machine share; None if there is no place for it, and none is needed.

    Raises ConfigError.
    """
    try:
        found = machine_secret.find_or_create(cluster_id)
    except NoPlaceForSecret:
        if not config.is_whole_cluster:
            raise
        # The node talks only to itself, so a secret in memory is enough.
        log.info("cluster secret kept in memory", reason="no place for a file: other nodes need cluster.secret.file")
        return None
    if found.created and config.is_whole_cluster:
        log.info("cluster secret created", file=str(found.path))
    elif found.created:
        log.warning(
            "cluster secret created",
            file=str(found.path),
            reason="none was found: if other nodes of this cluster run, restart them all as the same user with the same"
            " HOME and XDG_STATE_HOME, or set cluster.secret.file on each of them",
        )
    return found.path
