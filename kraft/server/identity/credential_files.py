"""Reads files with secrets and certificates; an error is one line, with the remedy, and nothing of the secret."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from kraft.server.config.loading import ConfigError

FILE_BYTES_MAX: Final = 1 << 20


class CredentialsError(ConfigError):
    """A file of secrets or certificates is unusable; one line, with the remedy, and nothing of the secret."""


def read_private(path: Path, key: str, forbidden: int, how_to_create: str = "name one that does") -> bytes:
    """Return the content of a file whose mode and owner keep it private. Raises CredentialsError."""
    try:
        found = path.stat()
    except FileNotFoundError:
        raise CredentialsError(f"{key}: {path} does not exist: {how_to_create}") from None
    except OSError as error:
        raise _unreadable(error, path, key) from None
    if stat.S_ISDIR(found.st_mode):
        raise CredentialsError(f"{key}: {path} is a directory: name a file")
    mode = stat.S_IMODE(found.st_mode)
    if mode & forbidden:
        raise CredentialsError(f"{key}: {path} can be read by others (mode {mode:04o}): chmod 600 {path}")
    if found.st_uid not in (0, os.geteuid()):
        raise CredentialsError(
            f"{key}: {path} belongs to another user (uid {found.st_uid}): chown it to the user of this node"
        )
    return read(path, key)


def read(path: Path, key: str) -> bytes:
    """Return the content of a file that `key` names. Raises CredentialsError."""
    try:
        with path.open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise _unreadable(error, path, key) from None
    if len(data) > FILE_BYTES_MAX:
        raise CredentialsError(f"{key}: {path} is larger than {FILE_BYTES_MAX} bytes: name another file")
    return data


def _unreadable(error: OSError, path: Path, key: str) -> CredentialsError:
    if isinstance(error, PermissionError):
        return CredentialsError(
            f"{key}: {path} cannot be read by the user of this node (uid {os.geteuid()}): chown it to that user, who"
            " also has to be let into the directories above"
        )
    return CredentialsError(f"{key}: {path} cannot be read ({error.strerror}): name another file")
