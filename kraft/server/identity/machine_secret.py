"""The secret that the nodes of one cluster on one machine share when `cluster.secret.file` names none.

It is in the user's state directory, one file per cluster, so that nodes find it without a setting. Anybody who can read
the user's files is trusted; somebody who only reaches a port of this machine is not. The first `kraft storage format`
or start of a node creates it.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from kraft.runtime.private_files import create_once
from kraft.server.config.loading import ConfigError

_RANDOM_BYTES = 32


class NoPlaceForSecret(ConfigError):
    """The user has no directory for the file; one line, with the remedy."""


class MachineSecret(Struct, frozen=True, kw_only=True):
    """The file of a secret. `created` is False if it already existed."""

    path: Path
    created: bool


def path_of(cluster_id: str, environment: Mapping[str, str] = os.environ) -> Path:
    """Return `$XDG_STATE_HOME/kraft/CLUSTER.secret`, by default below ~/.local/state. Raises NoPlaceForSecret."""
    named = environment.get("XDG_STATE_HOME", "")
    # A relative path has to be ignored. Source: XDG Base Directory Specification.
    if not named.startswith("/"):
        try:
            named = str(Path.home() / ".local" / "state")
        except RuntimeError:
            raise _no_place("this user has no home directory") from None
    return Path(named) / "kraft" / f"{cluster_id}.secret"


def find_or_create(cluster_id: str, environment: Mapping[str, str] = os.environ) -> MachineSecret:
    """Return the file. It is complete whenever it is visible, also to nodes that start at the same time.

    Raises NoPlaceForSecret.
    """
    path = path_of(cluster_id, environment)
    try:
        if path.exists():
            return MachineSecret(path=path, created=False)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return MachineSecret(path=path, created=write_new(path))
    except OSError as error:
        raise _no_place(f"{error.filename or path}: {error.strerror}") from None


def write_new(path: Path) -> bool:
    """Write a file with a new secret, durable and readable only by its owner; False if the file exists."""
    return create_once(path, f"{secrets.token_urlsafe(_RANDOM_BYTES)}\n".encode())


def _no_place(reason: str) -> NoPlaceForSecret:
    return NoPlaceForSecret(
        f"no place for the secret that the nodes of this machine share ({reason}): create one with"
        " (umask 077; openssl rand -base64 32 > FILE) and set cluster.secret.file=FILE on every node"
    )
