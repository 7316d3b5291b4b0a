"""The replicas of a topic whose replication is throttled: the value of the configs that name them.

As Kafka's ThrottledReplicaListValidator reads it: `*` for all of them, or partition:broker for each, separated by
commas. Source: KIP-73.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final

from msgspec import Struct

from kraft.model.configs import ConfigType

LEADER_REPLICAS: Final = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS: Final = "follower.replication.throttled.replicas"
REPLICA_LISTS: Final = (LEADER_REPLICAS, FOLLOWER_REPLICAS)
"""Topic configs: lists of PARTITION:BROKER, or `*`."""

ALL_REPLICAS: Final = "*"

_TEXT_LENGTH_MAX: Final = 32_767
"""The longest value of a config in Kafka."""

_NAME: Final = re.compile(r"([0-9]{1,20}):([0-9]{1,20})", re.ASCII)
_NUMBER_MAX: Final = 2**31 - 1
_WANTED: Final = f"* or a list of partition:broker, such as 0:1,1:2, of at most {_TEXT_LENGTH_MAX} characters"

_REMEMBERED: Final = 16
"""A list of thousands of replicas is read for each of the partitions that it names, one after the other."""


class ThrottledReplicas(Struct, frozen=True):
    """Replicas of one topic; `text` is the value of the config."""

    text: str
    named: frozenset[tuple[int, int]] = frozenset()
    """Partition and broker of each replica, unless they are all."""

    def includes(self, partition: int, broker_id: int) -> bool:
        return self.text == ALL_REPLICAS or (partition, broker_id) in self.named


NO_REPLICAS: Final = ThrottledReplicas("")


class ReplicaNames(Struct, frozen=True):
    """The kind of these values."""

    @property
    def type(self) -> ConfigType:
        return ConfigType.LIST

    @property
    def wanted(self) -> str:
        return _WANTED

    def allows(self, value: Any) -> bool:
        return isinstance(value, ThrottledReplicas)

    def read(self, text: str) -> ThrottledReplicas:
        """Return the replicas; names may be twice, and nothing but empty ones may follow an empty one.

        Raises ValueError.
        """
        if len(text) > _TEXT_LENGTH_MAX:
            raise ValueError(_WANTED)
        return _read(text)


@lru_cache(_REMEMBERED)
def _read(text: str) -> ThrottledReplicas:
    items = [item.strip() for item in text.split(",")]
    if items == [ALL_REPLICAS]:
        return ThrottledReplicas(ALL_REPLICAS)
    while items and not items[-1]:
        items.pop()
    return ThrottledReplicas(",".join(items), frozenset(_replica(item) for item in items)) if items else NO_REPLICAS


def _replica(item: str) -> tuple[int, int]:
    name = _NAME.fullmatch(item)
    if name is None or max(partition := int(name[1]), broker := int(name[2])) > _NUMBER_MAX:
        raise ValueError(_WANTED)
    return partition, broker
