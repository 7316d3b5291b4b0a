"""FindCoordinator: finds the brokers that coordinate groups and transactions."""

from __future__ import annotations

from enum import IntEnum


class CoordinatorType(IntEnum):
    """Kind of a coordinator. The numbers are Kafka's."""

    GROUP = 0
    TRANSACTION = 1
    SHARE = 2
