"""The largest record that a topic accepts, which shows that a config is in effect."""

from __future__ import annotations

from kraft.client import Producer, Refusal
from kraft.model.errors import ErrorCode
from kraft.testing import Cluster
from tests.support.waiting import DEADLINE_S, until


def is_taken(cluster: Cluster, topic: str, size: int) -> bool:
    """Return whether partition 0 accepts a record with a value of that many bytes. Raises Refusal."""
    try:
        with Producer(cluster.bootstrap_servers) as producer:
            producer.send(topic, b"x" * size, partition=0).result(timeout=DEADLINE_S)
    except Refusal as refusal:
        if refusal.error_code is not ErrorCode.MESSAGE_TOO_LARGE:
            raise
        return False
    return True


def until_size(cluster: Cluster, topic: str, size: int, *, taken: bool) -> None:
    """Wait: the leader may get a config a moment after the broker that answered. Raises TimeoutError."""
    until(
        lambda: is_taken(cluster, topic, size) is taken, f"{size} bytes are {'not ' if taken else ''}taken by {topic}"
    )
