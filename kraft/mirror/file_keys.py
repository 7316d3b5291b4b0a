"""Keys of a mirror's file: those of MirrorMaker 2, some of our own, and an answer for each that is not used."""

from __future__ import annotations

import difflib
import re
from typing import Final

PAIR_KEYS: Final = {
    "enabled": "false",
    "topics": ".*",
    "topics.exclude": r"mm2.*\.internal,.*\.internal,.*\.replica,__.*,kraft-mirror\..*",
    "groups": ".*",
    "groups.exclude": r"console-consumer-.*,connect-.*,__.*,kraft-mirror\..*",
    "replication.policy.class": "DefaultReplicationPolicy",
    "replication.policy.separator": ".",
    "replication.factor": "-1",
    "offset-syncs.topic.replication.factor": "-1",
    "refresh.topics.interval.seconds": "30",
    "sync.topic.configs.enabled": "true",
    "sync.topic.acls.enabled": "false",
    "sync.group.offsets.enabled": "true",
    "sync.group.offsets.interval.seconds": "10",
    "config.properties.exclude": r"follower\.replication\.throttled\.replicas,leader\.replication\.throttled\.replicas,"
    r"message\.timestamp\..*,unclean\.leader\.election\.enable,min\.insync\.replicas",
    "exactly.once.source.support": "",
    "offset.flush.interval.ms": "500",
    "throttle.bytes.per.second": "0",
    "tasks.max": "4",
}
"""Keys of a pair with their defaults; a key without the pair in front is for all pairs."""

OLD_NAMES: Final = {
    "topics.blacklist": "topics.exclude",
    "groups.blacklist": "groups.exclude",
    "topics.whitelist": "topics",
    "config.properties.blacklist": "config.properties.exclude",
    "sync.topic.configs.interval.seconds": "refresh.topics.interval.seconds",
    "sync.topic.acls.interval.seconds": "refresh.topics.interval.seconds",
    "refresh.groups.interval.seconds": "sync.group.offsets.interval.seconds",
    "emit.checkpoints.interval.seconds": "sync.group.offsets.interval.seconds",
}
"""Old names, and names of things that happen together here."""

OWN_KEYS: Final = ("clusters", "name", "metrics.address")

_CHECKPOINTS: Final = (
    "there is no topic of checkpoints: committed offsets are carried over by sync.group.offsets.enabled"
)
_HEARTBEATS: Final = "there are no heartbeats: kraft mirror status and /metrics show whether a mirror is alive"
_BYTES: Final = "records are copied as bytes, without converters"
_CONNECT: Final = "workers meet in a consumer group at the target, and need neither REST nor Connect's topics"

_NOT_NEEDED: Final = (
    (r"emit\.heartbeats\..*|heartbeats\..*", _HEARTBEATS),
    (r"emit\.checkpoints\..*|checkpoints\..*", _CHECKPOINTS),
    (r"offset\.lag\.max|emit\.offset-syncs\..*", "offsets are translated from runs of records, not from samples"),
    (r"offset-syncs\..*", "positions and runs are in one topic at the target"),
    (r"refresh\.(topics|groups)\.enabled|add\.source\.alias\..*", "new topics and groups are always found"),
    (r"(key|value|header|internal\.key|internal\.value)\.converter(\..*)?", _BYTES),
    (r"(config|offset|status)\.storage\..*|group\.id|rest\..*|listeners|plugin\..*|dedicated\.mode\..*", _CONNECT),
    (r"(scheduled|rebalance|worker|connector|task)\..*|offset\.flush\.timeout\.ms", _CONNECT),
    (r"metric\.reporters|metrics\.(num|sample|recording)\..*|auto\.include\.jmx\.reporter", "metrics are at /metrics"),
)
_REFUSED: Final = (
    (r"transforms(\..*)?|predicates(\..*)?", "records are not changed on their way; remove it"),
    (r"(topic|group|config\.property)\.filter\.class|forwarding\.admin\.class", "no Java runs here; use patterns"),
    (r"use\.defaults\.from", "only configs that are set on a topic are carried over; remove it"),
    (r"consumer\.config|producer\.config|whitelist|blacklist|num\.streams|abort\.on\.send\.failure", "see below"),
)
MIRRORMAKER_1: Final = (
    "is MirrorMaker 1's: name the clusters in one file (clusters=A, B; A.bootstrap.servers=...; "
    "B.bootstrap.servers=...; A->B.enabled=true; A->B.topics=...; "
    "replication.policy.class=IdentityReplicationPolicy), and start it with kraft mirror start -c FILE"
)
_CLIENTS: Final = ("consumer.", "producer.", "admin.")
SHARED_CLIENT_KEYS: Final = re.compile(
    r"security\..*|sasl\..*|ssl\..*|wire\.protocol|client\.id|(consumer|producer|admin)\..+"
)
"""Settings of clients that may stand without an alias, for every cluster."""


def note(key: str) -> str | None:
    """Return why a key of MirrorMaker has no effect here, if it needs none."""
    return next((answer for known, answer in _NOT_NEEDED if re.fullmatch(known, key)), None)


def refusal(key: str) -> str:
    """Return what to do about a key that is not taken."""
    for known, answer in _REFUSED:
        if re.fullmatch(known, key):
            return MIRRORMAKER_1 if answer == "see below" else f"is not supported: {answer}"
    near = difflib.get_close_matches(key, [*PAIR_KEYS, *OLD_NAMES, *OWN_KEYS], n=1)
    return f"is no key of a mirror{f'; did you mean {near[0]}?' if near else ''}"


def is_client_prefix(key: str) -> bool:
    return key.startswith(_CLIENTS)
