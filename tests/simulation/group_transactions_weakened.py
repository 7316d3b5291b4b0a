"""Offsets in transactions with one guard removed at a time, to show that each guard is needed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

from msgspec.structs import replace

from kraft.coordinator.groups import passes
from kraft.coordinator.groups.shard import GroupShard
from kraft.coordinator.offsets import pending_offsets
from kraft.coordinator.offsets.committed_offsets import CommittedOffsets
from kraft.coordinator.offsets.expiry import expired
from kraft.coordinator.offsets.fetch import fetch
from kraft.coordinator.offsets.pending_offsets import PendingOffsets
from kraft.coordinator.shard_machine import ShardMachine
from kraft.log.transactions.verification import Verifications
from kraft.server.coordinator.shard_load import Newest
from tests.simulation import group_transactions_world as world_module
from tests.simulation import groups_weakened
from tests.simulation.group_transactions_host import Host, entry

Guard = Callable[[], AbstractContextManager[object]]


# --- the state -------------------------------------------------------------------------------------------------------


def counting_at_once() -> AbstractContextManager[object]:
    """An offset counts when it is written, before its transaction is committed."""

    def replay(shard: GroupShard, groups: Any, producer_id: int, record: Any) -> Any:
        return shard.replay(groups, record)

    return patch.object(GroupShard, "replay_transactional", replay)


def committing_aborted_offsets() -> AbstractContextManager[object]:
    """Every marker commits."""
    ended = GroupShard.replay_end_transaction

    def commit(shard: GroupShard, groups: Any, producer_id: int, is_commit: bool) -> Any:
        return ended(shard, groups, producer_id, True)

    return patch.object(GroupShard, "replay_end_transaction", commit)


def counting_from_the_marker() -> AbstractContextManager[object]:
    """A commit whose record is later does not overtake a pending offset."""
    return patch.object(PendingOffsets, "overtaken", lambda pending, place: pending)


def overtaking_by_markers_alone() -> AbstractContextManager[object]:
    """A committed transaction does not overtake the earlier offsets of others."""
    return patch.object(pending_offsets, "_overtaken", lambda waiting: waiting)


def keeping_deleted_offsets() -> AbstractContextManager[object]:
    """A tombstone leaves pending offsets alone."""
    return patch.object(PendingOffsets, "deleted", lambda pending, place: pending)


# --- what depends on pending offsets ---------------------------------------------------------------------------------


def expiring_what_is_pending() -> AbstractContextManager[object]:
    """Offsets and groups expire although a transaction is about to commit offsets."""

    def blind(offsets: CommittedOffsets, *arguments: Any, **named: Any) -> Any:
        return expired(replace(offsets, pending=PendingOffsets()), *arguments, **named)

    return patch.object(passes, "expired", blind)


def fetching_before_the_marker() -> AbstractContextManager[object]:
    """A fetch of stable offsets does not wait for transactions."""

    return patch.object(
        world_module, "fetch_stable", lambda committed, latest, group, topics: fetch(committed, group, topics)
    )


# --- the load --------------------------------------------------------------------------------------------------------


def loading_without_aborts() -> AbstractContextManager[object]:
    """A load commits what a marker aborts."""

    def end(newest: Any, header: Any, batch: Any) -> None:
        for key, record in newest._open.pop(header.producer_id, {}).items():
            if key not in newest._last or newest._last[key].offset < record.offset:
                newest._last[key] = record

    return patch.object(Newest, "_end_transaction", end)


def loading_in_the_order_of_markers() -> AbstractContextManager[object]:
    """A load lets a committed transaction replace later offsets."""

    def end(newest: Any, header: Any, batch: Any) -> None:
        ended = newest._open.pop(header.producer_id, {})
        if entry(bytes(batch)).is_commit:
            newest._last.update(ended)

    return patch.object(Newest, "_end_transaction", end)


def loading_without_open_transactions() -> AbstractContextManager[object]:
    """A load forgets the offsets of transactions that have not ended."""
    in_order = Newest.in_order

    def ended(newest: Any) -> Any:
        return [record for record in in_order(newest) if record.producer_id is None]

    return patch.object(Newest, "in_order", ended)


# --- the host --------------------------------------------------------------------------------------------------------


def appending_without_verification() -> AbstractContextManager[object]:
    """A late offset begins a transaction after the marker of its own."""
    return patch.object(Verifications, "allows", lambda verifications, producer_id, guard: True)


def deciding_without_the_log() -> AbstractContextManager[object]:
    """A producer is checked only when its batch is appended, with what was decided after it."""
    return patch.object(Host, "_producer_refusal", lambda host, batch, origin: None)


def deciding_on_what_is_not_appended() -> AbstractContextManager[object]:
    """A producer is checked while an earlier batch of it is not in the log."""

    def ask(hosted: Any, transactional: Any) -> Any:
        return hosted._facts.producer_refusal(transactional.batch, transactional.origin)

    return patch.object(ShardMachine, "_producer_refusal", ask)


def replying_when_appended() -> AbstractContextManager[object]:
    """Replies wait only until what was decided is in the leader's log."""
    return groups_weakened.replying_when_appended(Host)
