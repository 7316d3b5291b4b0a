"""Authorized operations, one bit each (KIP-430). Without access control every operation is authorized."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

_READ, _WRITE, _CREATE, _DELETE, _ALTER, _DESCRIBE = 3, 4, 5, 6, 7, 8
_CLUSTER_ACTION, _DESCRIBE_CONFIGS, _ALTER_CONFIGS, _IDEMPOTENT_WRITE = 9, 10, 11, 12

NOT_ASKED: Final = -0x80000000


def _bits(operations: Iterable[int]) -> int:
    return sum(1 << operation for operation in operations)


ON_TOPIC: Final = _bits((_READ, _WRITE, _CREATE, _DELETE, _ALTER, _DESCRIBE, _DESCRIBE_CONFIGS, _ALTER_CONFIGS))

ON_CLUSTER: Final = _bits(
    (_CREATE, _ALTER, _DESCRIBE, _CLUSTER_ACTION, _DESCRIBE_CONFIGS, _ALTER_CONFIGS, _IDEMPOTENT_WRITE)
)

ON_GROUP: Final = _bits((_READ, _DELETE, _DESCRIBE, _DESCRIBE_CONFIGS, _ALTER_CONFIGS))


def on_group(*, asked: bool) -> int:
    return ON_GROUP if asked else NOT_ASKED
