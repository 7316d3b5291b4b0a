"""How many files and connections this process may have open: as many as the system lets it."""

from __future__ import annotations

import resource
from typing import Final

import structlog

log = structlog.get_logger()

UNLIMITED: Final = 1 << 31


def raise_file_limit() -> int:
    """Raises the soft limit to the hard one, and returns how many files may be open.

    The soft one is 1,024 on many systems, for the sake of programs that cannot do with more. A log segment and a
    client's connection are a file each.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == hard:
        return soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (ValueError, OSError) as error:
        # Some systems have a limit of their own below a hard one that says "unlimited".
        log.warning("open file limit not raised", files_max=soft, wanted=hard, reason=str(error))
        return soft
    return hard


def connections_max(files_max: int) -> int:
    """A quarter is left for logs and other nodes: a log that cannot be opened takes its directory offline."""
    return UNLIMITED if files_max == resource.RLIM_INFINITY else files_max - files_max // 4
