"""What an operator should know of the voters of a metadata quorum, in words."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kraft.model.describe_quorum import QuorumDescription, QuorumMember


def voter_warnings(description: QuorumDescription) -> list[str]:
    """Return a warning for each voter that does not count now; none if no controller is active.

    The error says that then.
    """
    return [warning for _, warning in warned_of(description)]


def warned_of(description: QuorumDescription) -> list[tuple[QuorumMember, str]]:
    """Return the voters that `voter_warnings` are about, each with its warning."""
    if description.error_code:
        return []
    voters = description.voters
    not_counting = [voter for voter in voters if voter.unreachable or voter.is_learner]
    has_spare = len(voters) - len(not_counting) > len(voters) // 2 + 1
    consequence = "" if has_spare else "; losing one more stops all changes"
    return [(voter, f"voter {voter.node_id} {_why_not_counting(voter)}{consequence}") for voter in not_counting]


def _why_not_counting(voter: QuorumMember) -> str:
    if not voter.unreachable:
        return "lost its metadata log and does not count until the leader admits it"
    heard_ms = voter.last_fetch_timestamp_ms
    if heard_ms < 0:
        return "unreachable: the leader has never heard from it"
    return f"unreachable since {datetime.fromtimestamp(heard_ms / 1_000, UTC):%H:%M:%S} UTC"
