"""The limit of open files and connections of this process: as many as the system allows."""

from __future__ import annotations

import resource
from typing import Final

import structlog

log = structlog.get_logger()

UNLIMITED: Final = 1 << 31


def raise_file_limit() -> int:
    """Raise the soft limit to the hard one, and return the number of files that may be open.

    The soft limit is 1,024 on many systems, for programs that fail with more. A log segment and a client's connection
    are one file each.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == hard:
        return soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (ValueError, OSError) as error:
        # Some systems have another limit below a hard one of "unlimited".
        log.warning("open file limit not raised", files_max=soft, wanted=hard, reason=str(error))
        return soft
    return hard


def connections_max(files_max: int) -> int:
    """Return the number of client connections to allow.

    A quarter of the files is left for logs and other nodes: a log that cannot be opened takes its directory offline.
    """
    return UNLIMITED if files_max == resource.RLIM_INFINITY else files_max - files_max // 4
