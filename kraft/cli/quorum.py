"""`kraft quorum`: the metadata quorum and its replication."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from msgspec.structs import asdict

from kraft.cli.options import (
    DEFAULT_BOOTSTRAP_SERVER,
    DEFAULT_TIMEOUT_MS,
    BootstrapServer,
    Output,
    OutputFormat,
    Timeout,
    open_admin,
)
from kraft.cli.printing import fail, print_columns, print_json, say
from kraft.health.quorum_words import voter_warnings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kraft.model.describe_quorum import QuorumDescription, QuorumMember

app = typer.Typer(help="Describe the metadata quorum.", no_args_is_help=True)


@app.callback()
def quorum() -> None:
    """Describe the metadata quorum."""


@app.command("describe")
def describe(
    status: Annotated[bool, typer.Option("--status", help="Show only the quorum as a whole.")] = False,
    replication: Annotated[
        bool, typer.Option("--replication", help="Show only the replication state of each member.")
    ] = False,
    human_readable: Annotated[
        bool, typer.Option("--human-readable", help="Show times as milliseconds before now instead of since 1970.")
    ] = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    output: OutputFormat = Output.TABLE,
    timeout_ms: Timeout = DEFAULT_TIMEOUT_MS,
) -> None:
    """Show the quorum's leader, voters and observers, and their lag.

    If no controller is active, it shows what the voters that can be reached know, and exits with 1.
    """
    from kraft.client.model.errors import NoActiveController

    try:
        with open_admin(bootstrap_server, timeout_ms) as admin:
            description = admin.describe_quorum(wait_for_leader=False)
    except NoActiveController as error:
        _print(error.description, output, status=status, replication=replication, human_readable=human_readable)
        fail(error.message)
    _print(description, output, status=status, replication=replication, human_readable=human_readable)
    for warning in voter_warnings(description):
        say(f"kraft: {warning}")


def _print(
    description: QuorumDescription, output: Output, *, status: bool, replication: bool, human_readable: bool
) -> None:
    if output is Output.JSON:
        print_json(_as_json(description))
        return
    both = status is replication
    if status or both:
        _print_status(description)
    if both:
        print()
    if replication or both:
        _print_replication(description, human_readable=human_readable)


def _print_status(description: QuorumDescription) -> None:
    """Print the status in the format of kafka-metadata-quorum.sh, which scripts parse."""
    lag, lag_ms = _max_follower_lag(description)
    for name, value in (
        ("ClusterId", description.cluster_id),
        ("LeaderId", description.leader_id),
        ("LeaderEpoch", description.leader_epoch),
        ("HighWatermark", description.high_watermark),
        ("MaxFollowerLag", lag),
        ("MaxFollowerLagTimeMs", lag_ms),
        ("CurrentVoters", _ids(description.voters)),
        ("CurrentObservers", _ids(description.observers)),
    ):
        print(f"{name + ':':<24}{value}")


def _print_replication(description: QuorumDescription, *, human_readable: bool) -> None:
    leader = _leader(description)
    rows = []
    for member in _in_kafkas_order(description):
        if leader is not None and member.node_id == leader.node_id:
            status = "Leader"
        elif member.unreachable:
            status = "Unreachable"
        elif member.is_learner:
            status = "Learner"
        else:
            status = "Follower" if member in description.voters else "Observer"
        # The leader's own last fetch is the time of its answer.
        now_ms = -1 if leader is None else leader.last_fetch_timestamp_ms
        times = [
            _time(each, now_ms, human_readable=human_readable)
            for each in (member.last_fetch_timestamp_ms, member.last_caught_up_timestamp_ms)
        ]
        rows.append((member.node_id, member.log_end_offset, member.lag, *times, status))
    titles = ("NodeId", "LogEndOffset", "Lag", "LastFetchTimestamp", "LastCaughtUpTimestamp", "Status")
    print_columns(titles, rows)


def _time(timestamp_ms: int, now_ms: int, *, human_readable: bool) -> str:
    if not human_readable:
        return str(timestamp_ms)
    return "unknown" if timestamp_ms < 0 or now_ms < 0 else f"{max(0, now_ms - timestamp_ms)} ms ago"


def _leader(description: QuorumDescription) -> QuorumMember | None:
    return next((voter for voter in description.voters if voter.node_id == description.leader_id), None)


def _in_kafkas_order(description: QuorumDescription) -> list[QuorumMember]:
    """Return the leader first, then the other voters, then the observers."""
    voters = sorted(description.voters, key=lambda voter: (voter.node_id != description.leader_id, voter.node_id))
    return [*voters, *description.observers]


def _max_follower_lag(description: QuorumDescription) -> tuple[int, int]:
    """Return the lag of the slowest voter: missing entries, and milliseconds since none was missing; -1 if unknown.

    A voter that has not told the leader yet what it has counts as one that has nothing.
    """
    leader = _leader(description)
    if leader is None:
        return -1, -1
    slowest = min(description.voters, key=lambda voter: voter.log_end_offset)
    lag = leader.log_end_offset - max(0, slowest.log_end_offset)
    if slowest is leader or not lag:
        return lag, 0
    if slowest.last_caught_up_timestamp_ms < 0:
        return lag, -1
    return lag, max(0, leader.last_caught_up_timestamp_ms - slowest.last_caught_up_timestamp_ms)


def _ids(members: Sequence[QuorumMember]) -> str:
    return f"[{','.join(str(member.node_id) for member in members)}]"


def _as_json(description: QuorumDescription) -> dict[str, Any]:
    lag, lag_ms = _max_follower_lag(description)
    return {
        "cluster_id": description.cluster_id,
        "leader_id": description.leader_id,
        "leader_epoch": description.leader_epoch,
        "high_watermark": description.high_watermark,
        "max_follower_lag": lag,
        "max_follower_lag_time_ms": lag_ms,
        "voters": [asdict(member) for member in description.voters],
        "observers": [asdict(member) for member in description.observers],
        "warnings": voter_warnings(description),
        "error": description.error_message or None,
    }
