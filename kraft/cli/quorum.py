"""`kraft quorum`: the controllers and the metadata log."""

from __future__ import annotations

from dataclasses import asdict

import typer

from kraft.cli.options import (
    DEFAULT_BOOTSTRAP_SERVER,
    DEFAULT_TIMEOUT_MS,
    BootstrapServer,
    Output,
    OutputFormat,
    Timeout,
)
from kraft.cli.printing import print_columns, print_json

app = typer.Typer(help="Look at the metadata quorum.", no_args_is_help=True)


@app.callback()
def quorum() -> None:
    """Look at the metadata quorum."""


@app.command("describe")
def describe(
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    output: OutputFormat = Output.TABLE,
    timeout_ms: Timeout = DEFAULT_TIMEOUT_MS,
) -> None:
    """Show the quorum's leader, its voters, the brokers that follow it, and how far each of them is."""
    from kraft.client import Admin

    with Admin(bootstrap_server, default_api_timeout_ms=timeout_ms) as admin:
        description = admin.describe_quorum()
    if output is Output.JSON:
        print_json(
            {
                "leader_id": description.leader_id,
                "leader_epoch": description.leader_epoch,
                "high_watermark": description.high_watermark,
                "voters": [asdict(member) for member in description.voters],
                "observers": [asdict(member) for member in description.observers],
            }
        )
        return
    print(f"LeaderId:      {description.leader_id if description.leader_id >= 0 else 'none'}")
    print(f"LeaderEpoch:   {description.leader_epoch}")
    print(f"HighWatermark: {description.high_watermark}")
    print()
    rows = []
    for status, members in (("voter", description.voters), ("observer", description.observers)):
        for member in members:
            is_leader = status == "voter" and member.node_id == description.leader_id
            rows.append(
                (
                    member.node_id,
                    "leader" if is_leader else status,
                    _or_unknown(member.log_end_offset),
                    _or_unknown(member.last_fetch_ms_ago),
                )
            )
    print_columns(("NodeId", "Status", "LogEndOffset", "LastFetchMsAgo"), rows)


def _or_unknown(number: int) -> str:
    return str(number) if number >= 0 else "unknown"
