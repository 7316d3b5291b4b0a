"""Waiting for a state of a cluster. There is no signal for it, so these poll until a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from kraft.client import Admin, Consumer, ErrorCode, OffsetAndMetadata, Refusal, TopicPartition

DEADLINE_S: Final = 60.0
POLL_S: Final = 0.05


def until(holds: Callable[[], bool], what: str | Callable[[], object], deadline_s: float = DEADLINE_S) -> None:
    """Poll until a condition holds. Raises TimeoutError that says what was found instead."""
    until_s = time.monotonic() + deadline_s
    while not holds():
        if time.monotonic() > until_s:
            raise TimeoutError(f"after {deadline_s:g} s: {what if isinstance(what, str) else what()}")
        time.sleep(POLL_S)


def until_every_broker_knows(bootstrap_servers: str, topic: str, deadline_s: float = DEADLINE_S) -> None:
    """Wait until each of these brokers describes the topic: a new one reaches one broker before the other."""
    for address in bootstrap_servers.split(","):
        with Admin(address) as admin:
            until(partial(_is_known, admin, topic), f"the broker at {address} does not know {topic}", deadline_s)


def _is_known(admin: Admin, topic: str) -> bool:
    try:
        admin.describe_topics([topic])
    except Refusal as refusal:
        if refusal.error_code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
        return False
    return True


def until_in_sync(admin: Admin, topic: str, deadline_s: float = DEADLINE_S) -> None:
    """Wait until the topic exists and every replica of every partition is in sync. Raises TimeoutError."""

    def are_in_sync() -> bool:
        try:
            (described,) = admin.describe_topics([topic])
        except Refusal as refusal:
            if refusal.error_code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            return False
        return all(len(each.isr_nodes) == len(each.replica_nodes) for each in described.metadata.partitions)

    until(are_in_sync, f"not every replica of {topic} is in sync", deadline_s)


def until_committed(admin: Admin, group: str, offsets: Mapping[TopicPartition, OffsetAndMetadata | int]) -> None:
    """Commit offsets for a group without members, again while its coordinator does not know the topics yet."""
    outcomes: dict[TopicPartition, Refusal | None] = {}

    def are_committed() -> bool:
        outcomes.update(admin.alter_consumer_group_offsets(group, offsets))
        return set(outcomes.values()) == {None}

    until(are_committed, lambda: outcomes)


def until_stable(bootstrap_servers: str, topics: Sequence[str], deadline_s: float = DEADLINE_S) -> None:
    """Wait until no transaction of the topics is open, or waits for its markers. Raises TimeoutError.

    A commit is acknowledged once it is decided, which may be before every partition has its marker.
    """
    with Consumer(bootstrap_servers) as every, Consumer(bootstrap_servers, isolation_level="read_committed") as stable:
        places = [TopicPartition(topic, each) for topic in topics for each in every.partitions_for(topic)]

        def held() -> dict[TopicPartition, tuple[int, int]]:
            lasts, ends = stable.end_offsets(places), every.end_offsets(places)
            return {each: (lasts[each], ends[each]) for each in places if lasts[each] != ends[each]}

        until(lambda: not held(), lambda: f"last stable offsets are held back: {held()}", deadline_s)
