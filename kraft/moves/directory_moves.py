"""Moves of replicas between the log directories of a broker, in the words of kafka-reassign-partitions.sh."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from kraft.model.errors import ErrorCode, KraftError, Refusal
from kraft.model.ids import TopicPartition, TopicPartitionReplica

if TYPE_CHECKING:
    from kraft.client import Admin

POLL_S: Final = 0.1

Directories = Mapping[TopicPartitionReplica, str]
"""Path of the log directory by replica."""


class DirectoryMoveFailed(KraftError):
    """A replica cannot be moved to that log directory; one line."""


class DirectoryMove(Struct, frozen=True, kw_only=True):
    """State of a replica that shall be in the log directory `target`."""

    target: str
    current: str | None = None
    """None if no directory of the broker has the replica, or the broker does not answer."""
    future: str | None = None
    """The directory that the replica is being copied to."""

    @property
    def is_active(self) -> bool:
        return self.future is not None

    @property
    def status(self) -> str:
        if self.current is None:
            return "not found"
        if self.is_active:
            return "in progress"
        return "completed" if self.current == self.target else "not active"


def check_directories(admin: Admin, wanted: Directories) -> None:
    """Raise DirectoryMoveFailed if a broker does not have the directory that it shall use."""
    outcomes = admin.describe_log_directories(with_replicas=False) if wanted else {}
    for replica, path in sorted(wanted.items()):
        outcome = outcomes.get(replica.broker_id)
        if outcome is None:
            raise DirectoryMoveFailed(f"broker {replica.broker_id} is not in service: start it, or remove its log_dirs")
        if isinstance(outcome, KraftError):
            raise outcome
        if path not in (paths := [each.log_dir for each in outcome]):
            problem = f"broker {replica.broker_id} has no log directory {path}: it has {', '.join(paths)}"
            raise DirectoryMoveFailed(problem)


def start_moves(admin: Admin, wanted: Directories, deadline_s: float, show: Callable[[str], None]) -> None:
    """Move each replica to its directory; `show` gets a line for each that has begun.

    A replica that is new on its broker cannot be moved before it is there. Raises DirectoryMoveFailed.
    """
    began = time.monotonic()
    waiting = dict(wanted)
    while waiting:
        outcome = admin.alter_replica_log_directories(waiting)
        for replica, error in sorted(outcome.items()):
            if error is None:
                show(
                    f"Successfully started moving log directory to {waiting.pop(replica)} for replica "
                    f"{replica.topic}-{replica.partition} with broker {replica.broker_id}"
                )
            elif not isinstance(error, Refusal) or error.error_code is not ErrorCode.REPLICA_NOT_AVAILABLE:
                raise DirectoryMoveFailed(f"Error moving replica {replica} to {waiting[replica]}: {error}")
        if waiting and time.monotonic() - began > deadline_s:
            replicas = ", ".join(map(str, sorted(waiting)))
            raise DirectoryMoveFailed(
                f"Timed out before log directory moves could be started for {replicas}: their brokers do not have them "
                "yet, and will create them there"
            )
        if waiting:
            # No API notifies a client of a new replica, so poll. The deadline was checked above.
            time.sleep(POLL_S)


def states(admin: Admin, wanted: Directories) -> dict[TopicPartitionReplica, DirectoryMove]:
    """Return the state of each replica."""
    outcomes = admin.describe_log_directories() if wanted else {}
    places: dict[TopicPartitionReplica, dict[bool, str]] = {}
    for broker, outcome in outcomes.items():
        for directory in () if isinstance(outcome, KraftError) else outcome:
            for topic in directory.topics:
                for each in topic.partitions:
                    replica = TopicPartitionReplica(topic.name, each.partition_index, broker)
                    places.setdefault(replica, {})[each.is_future_key] = directory.log_dir
    return {
        replica: DirectoryMove(
            target=path,
            current=places.get(replica, {}).get(False),
            future=places.get(replica, {}).get(True),
        )
        for replica, path in sorted(wanted.items())
    }


def in_words(replica: TopicPartitionReplica, move: DirectoryMove) -> str:
    name = f"Partition {replica.topic}-{replica.partition}"
    match move.status:
        case "completed":
            return f"Reassignment of replica {replica} completed successfully."
        case "in progress" if move.future == move.target:
            return f"Reassignment of replica {replica} is still in progress."
        case "in progress":
            to = f"{move.future} instead of {move.target}"
            return f"{name} on broker {replica.broker_id} is being moved to log dir {to}."
        case "not active":
            between = f"from log dir {move.current} to {move.target}"
            return f"{name} on broker {replica.broker_id} is not being moved {between}."
        case _:
            return f"{name} cannot be found in any live log directory on broker {replica.broker_id}."


def by_partition(
    moves: Mapping[TopicPartitionReplica, DirectoryMove],
) -> dict[TopicPartition, list[dict[str, Any]]]:
    """Return the states for programs."""
    found: dict[TopicPartition, list[dict[str, Any]]] = {}
    for replica, move in moves.items():
        found.setdefault(TopicPartition(replica.topic, replica.partition), []).append(
            {
                "broker": replica.broker_id,
                "status": move.status,
                "log_dir": move.current,
                "future_log_dir": move.future,
                "target_log_dir": move.target,
            }
        )
    return found
