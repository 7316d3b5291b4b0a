"""MirrorMaker 1's command line: its two files of clients and its options, as the file of a mirror."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

SOURCE: Final = "source"
TARGET: Final = "target"

_NOTES: Final = {
    "auto.offset.reset": "a mirror begins with the oldest record",
    "enable.auto.commit": "positions are committed with the records",
    "auto.commit.interval.ms": "positions are committed with the records",
    "isolation.level": "only committed records are mirrored",
    "group.instance.id": "name the worker with --worker",
    "group.protocol": "workers meet in a group at the target",
    "partition.assignment.strategy": "workers meet in a group at the target",
    "exclude.internal.topics": "internal topics are never mirrored",
    "acks": "records are stored by all replicas in sync",
    "transactional.id": "a mirror names its transactions itself",
    "key.deserializer": "records are copied as bytes",
    "value.deserializer": "records are copied as bytes",
    "key.serializer": "records are copied as bytes",
    "value.serializer": "records are copied as bytes",
}
"""Keys of clients that the mirror sets itself, and why they have no effect."""


def settings_of_maker(
    consumer: Mapping[str, str],
    producer: Mapping[str, str],
    include: str,
    *,
    num_streams: int,
    offset_commit_interval_ms: int | None,
) -> tuple[dict[str, str], list[str]]:
    """Return the settings of a mirror that does the same, and a note for each key without effect.

    Topics keep their names, and nothing of groups is carried over, as MirrorMaker 1 did. `group.id` of the consumer
    names the mirror. Addresses are taken as those of Kafka's protocol.
    """
    pair = f"{SOURCE}->{TARGET}"
    settings = {
        "clusters": f"{SOURCE}, {TARGET}",
        "name": consumer.get("group.id", "kraft-mirror"),
        f"{SOURCE}.wire.protocol": "kafka",
        f"{TARGET}.wire.protocol": "kafka",
        f"{pair}.enabled": "true",
        f"{pair}.topics": include,
        f"{pair}.replication.policy.class": "IdentityReplicationPolicy",
        f"{pair}.sync.group.offsets.enabled": "false",
        f"{pair}.tasks.max": str(num_streams),
    }
    if offset_commit_interval_ms is not None:
        settings[f"{pair}.offset.flush.interval.ms"] = str(offset_commit_interval_ms)
    notes = []
    for alias, kind, given in ((SOURCE, "consumer", consumer), (TARGET, "producer", producer)):
        for key, value in given.items():
            if key in _NOTES:
                notes.append(f"--{kind}.config: {key} has no effect: {_NOTES[key]}")
            elif key != "group.id":
                # Both kinds of clients of a cluster, and its admin client, need what reaches it.
                prefix = alias if key.startswith(_SHARED) else f"{alias}.{kind}"
                settings[f"{prefix}.{key}"] = value
    return settings, notes


_SHARED: Final = ("bootstrap.servers", "security.", "sasl.", "ssl.", "wire.protocol", "client.id", "request.timeout.ms")
