"""The directory of the metadata log is for the node's user only: what is kept of passwords is in it."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Final

import structlog

from kraft.runtime.disk import DIRECTORY_MODE

log = structlog.get_logger()

METADATA_DIRECTORY: Final = "__cluster_metadata"

_OF_OTHERS: Final = 0o077


def close_to_others(metadata_log_dir: Path) -> None:
    """Take the directory's permissions from other users: an earlier version may have made it, before there were users.

    It is a warning where only its owner, another user, could do so.
    """
    directory = metadata_log_dir / METADATA_DIRECTORY
    # A directory that cannot be read at all is reported by whoever opens it.
    with suppress(OSError):
        if not directory.stat().st_mode & _OF_OTHERS:
            return
        try:
            directory.chmod(DIRECTORY_MODE)
        except PermissionError:
            log.warning(
                "metadata log open to other users",
                directory=str(directory),
                remedy="run chmod 700 on it as its owner: what is kept of passwords is in it",
            )
        else:
            log.info("metadata log closed to other users", directory=str(directory))
