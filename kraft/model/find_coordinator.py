"""FindCoordinator: finds the brokers that coordinate groups."""

from __future__ import annotations

from enum import IntEnum

from msgspec import Struct

from kraft.model.errors import ErrorCode


class CoordinatorType(IntEnum):
    """Kind of a coordinator. The numbers are Kafka's."""

    GROUP = 0
    TRANSACTION = 1
    SHARE = 2


class FindCoordinatorRequest(Struct, frozen=True, kw_only=True):
    key_type: CoordinatorType = CoordinatorType.GROUP
    keys: tuple[str, ...]
    """Ids of groups, if these are what is coordinated."""


class Coordinator(Struct, frozen=True, kw_only=True):
    """The broker that coordinates what `key` names; with an error code, no broker: -1 and an empty host."""

    key: str
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str = ""
    node_id: int = -1
    host: str = ""
    port: int = -1


class FindCoordinatorResponse(Struct, frozen=True, kw_only=True):
    """Response to FindCoordinator, in the order of the request."""

    coordinators: tuple[Coordinator, ...]
