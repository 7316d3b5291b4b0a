"""The limit of open files and connections of this process: as many as the system allows."""

from __future__ import annotations

import resource
from typing import Final

import structlog
from msgspec import Struct

log = structlog.get_logger()

UNLIMITED: Final = (1 << 31) - 1

_KAFKA_WEIGHT: Final = 4
_GRPC_WEIGHT: Final = 3
_CONTROLLER_WEIGHT: Final = 1


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


class ConnectionShares(Struct, frozen=True, kw_only=True):
    """The number of connections to allow on each listener."""

    kafka: int
    grpc: int
    controller: int


def connection_shares(files_max: int, *, has_kafka: bool, has_grpc: bool, has_controller: bool) -> ConnectionShares:
    """Return the connections of the listeners that there are.

    A quarter of the files is left for logs and for connections to other nodes. The CONTROLLER listener is for nodes,
    and needs the fewest.
    """
    if files_max == resource.RLIM_INFINITY:
        return ConnectionShares(kafka=UNLIMITED, grpc=UNLIMITED, controller=UNLIMITED)
    weights = (_KAFKA_WEIGHT * has_kafka, _GRPC_WEIGHT * has_grpc, _CONTROLLER_WEIGHT * has_controller)
    connections = files_max - files_max // 4
    kafka, grpc, controller = (connections * weight // max(sum(weights), 1) for weight in weights)
    return ConnectionShares(kafka=kafka, grpc=grpc, controller=controller)
