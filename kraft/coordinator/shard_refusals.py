"""Refusals of requests whose records a coordinator cannot write, or cannot see committed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kraft.coordinator.shard import Reply
from kraft.model.errors import ErrorCode, Refusal

_LOST: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
"""Errors of an append after which a client has to look for the coordinator again."""


def client_refusal(reason: Refusal) -> Refusal:
    """Return the refusal for a client whose request was not written for this reason. The client may retry it.

    Source: CoordinatorOperationExceptionHelper in Kafka.
    """
    if reason.error_code in _LOST:
        return Refusal(ErrorCode.NOT_COORDINATOR, f"this broker cannot write as the coordinator: {reason.message}")
    return coordinator_unavailable(f"the coordinator cannot write now: {reason.message}")


def coordinator_unavailable(message: str) -> Refusal:
    """Return the refusal after which a client asks this coordinator again."""
    return Refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE, message)


def broker_stopping() -> Refusal:
    return coordinator_unavailable("this broker is stopping; look for the coordinator again")


def not_coordinator(reason: str) -> Refusal:
    return Refusal(ErrorCode.NOT_COORDINATOR, f"{reason}: look for the coordinator again")


def commit_overdue(replies: Sequence[Reply]) -> tuple[Reply, ...]:
    """Return a refusal in place of each reply: the commit that it waits for takes too long."""
    refusal = coordinator_unavailable("the in-sync replicas have not confirmed the coordinator's write in time; retry")
    return tuple(Reply(reply.ticket, refusal) for reply in replies)
