"""Description of a quorum without an active controller, from the answers of the voters that a broker can reach."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from kraft.model.describe_quorum import QuorumDescription, QuorumMember
from kraft.model.errors import ErrorCode


def leaderless(
    answers: Mapping[int, QuorumDescription | None], heard_ms: Mapping[int, int], *, asked_by: int, now_ms: int
) -> QuorumDescription:
    """Return what node `asked_by` knows: `answers` by voter, None for those that it cannot reach.

    `heard_ms` is when this node itself last heard from voters. A voter's last contact is the latest that anybody
    reports. Times are in milliseconds since 1970.
    """
    answered = {voter: answer for voter, answer in answers.items() if answer is not None}
    voters = [_member(voter, answered, heard_ms.get(voter, -1), now_ms) for voter in sorted(answers)]
    return QuorumDescription(
        error_code=ErrorCode.NOT_CONTROLLER,
        error_message=_in_words(voters, asked_by, now_ms),
        leader_epoch=max((answer.leader_epoch for answer in answered.values()), default=-1),
        high_watermark=max((answer.high_watermark for answer in answered.values()), default=-1),
        voters=voters,
        cluster_id=next((answer.cluster_id for answer in answered.values()), ""),
    )


def _member(voter: int, answered: Mapping[int, QuorumDescription], heard_ms: int, now_ms: int) -> QuorumMember:
    reports = [each for answer in answered.values() for each in answer.voters if each.node_id == voter]
    # A voter knows itself; of one that does not answer, others may have heard it.
    own = [report for report in answered[voter].voters if report.node_id == voter] if voter in answered else reports
    last_ms = max((heard_ms, *(report.last_fetch_timestamp_ms for report in reports)))
    return QuorumMember(
        node_id=voter,
        log_end_offset=max((report.log_end_offset for report in reports), default=-1),
        last_fetch_ms_ago=-1 if last_ms < 0 else max(0, now_ms - last_ms),
        last_fetch_timestamp_ms=last_ms,
        is_learner=any(report.is_learner for report in own),
        unreachable=voter not in answered,
    )


def _in_words(voters: list[QuorumMember], asked_by: int, now_ms: int) -> str:
    unreachable = [voter for voter in voters if voter.unreachable]
    majority = len(voters) // 2 + 1
    reachable = len(voters) - len(unreachable)
    missing = ", ".join(_contact(voter, now_ms) for voter in unreachable)
    if any(voter.is_learner for voter in voters):
        return f"no controller is active: {_of_learners(voters, majority)}" + (
            f"; unreachable: {missing}" if missing else ""
        )
    if not unreachable:
        return (
            f"no controller is active: all {len(voters)} voters answer node {asked_by}, but have no leader: "
            "if this lasts, see their logs"
        )
    if reachable >= majority:
        return (
            f"no controller is active: {reachable} of {len(voters)} voters answer node {asked_by}, but have no leader; "
            f"unreachable: {missing}: if this lasts, see the logs of the voters"
        )
    return (
        f"no controller is active: node {asked_by} reaches {reachable} of {len(voters)} voters, and {majority} are "
        f"needed; unreachable: {missing}: start them, or mend the network between the controllers"
    )


def _of_learners(voters: list[QuorumMember], majority: int) -> str:
    """Return what the learners, of which there is at least one, mean for the quorum, and what can be done."""
    learners = [voter.node_id for voter in voters if voter.is_learner]
    others = [voter for voter in voters if not voter.is_learner]
    which = _named("voter", learners)
    one = len(learners) == 1
    if not others:
        return f"{which} {'has lost its metadata log' if one else 'have lost their metadata logs'}, and nobody has it"
    if len(others) < majority:
        return (
            f"{which} {'has lost its metadata log' if one else 'have lost their metadata logs'}; only"
            f" {_named('node', [voter.node_id for voter in others])} {'has' if len(others) == 1 else 'have'} the"
            " metadata: do not delete it"
        )
    lost = (
        f"{which} {'lost its metadata log and does' if one else 'lost their metadata logs and do'} not count until a"
        " leader admits " + ("it" if one else "them")
    )
    away = [voter.node_id for voter in others if voter.unreachable]
    needed = majority - (len(others) - len(away))
    if needed <= 0:
        return f"{lost}; if the others have no leader for long, see their logs"
    return f"{lost}: start " + ("" if needed == len(away) else f"{needed} of ") + _named("voter", away)


def _named(kind: str, ids: list[int]) -> str:
    *first, last = map(str, ids)
    return f"{kind}s {', '.join(first)} and {last}" if first else f"{kind} {last}"


def _contact(voter: QuorumMember, now_ms: int) -> str:
    last_ms = voter.last_fetch_timestamp_ms
    if last_ms < 0:
        return f"voter {voter.node_id} (never heard from)"
    since = datetime.fromtimestamp(last_ms / 1_000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return f"voter {voter.node_id} (since {since}, {max(0, now_ms - last_ms) / 1_000:.0f} s ago)"
