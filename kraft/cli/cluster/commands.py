"""`kraft cluster health`: what is wrong with the cluster, and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from msgspec.structs import asdict

from kraft.cli.options import (
    DEFAULT_BOOTSTRAP_SERVER,
    DEFAULT_TIMEOUT_MS,
    BootstrapServer,
    Output,
    OutputFormat,
    Timeout,
)
from kraft.cli.printing import print_json
from kraft.model.printable import counted

if TYPE_CHECKING:
    from kraft.health.findings import ClusterFacts, Finding

app = typer.Typer(help="Show what is wrong with the cluster.", no_args_is_help=True)

EXIT_CODES: Final = {"healthy": 0, "degraded": 3, "critical": 4}
"""By state. Every command ends with 1 if it fails, and with 2 if it was called wrongly."""


@app.callback()
def cluster() -> None:
    """Show what is wrong with the cluster."""


@app.command("health")
def health(
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing if the cluster is healthy.")] = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    output: OutputFormat = Output.TABLE,
    timeout_ms: Timeout = DEFAULT_TIMEOUT_MS,
) -> None:
    """Show what is wrong with the cluster, and what to do.

    Looks at the controllers, brokers, disks, partitions, coordinators, hanging transactions and, with TLS, at
    certificates that expire within 30 days.

    Exit code: 0 healthy; 3 degraded, all works but less safely than configured; 4 critical, something does not work; 1
    if no broker answers.
    """
    from kraft.cli.cluster.facts import gather
    from kraft.health.findings import findings, state_of

    facts = gather(bootstrap_server, timeout_ms)
    found = findings(facts)
    state = state_of(found)
    if output is Output.JSON:
        print_json(_as_json(facts, found, state))
    elif found or not quiet:
        _print(facts, found, state)
    raise typer.Exit(EXIT_CODES[state])


def _print(facts: ClusterFacts, found: list[Finding], state: str) -> None:
    print(f"Cluster {facts.quorum.cluster_id or 'of unknown id'} is {state}: {extent(facts)}.")
    for each in found:
        print(f"{each.severity.upper() + ':':<10}{each.what}")
        if each.remedy:
            print(f"{'':<10}To do: {each.remedy}")


def extent(facts: ClusterFacts) -> str:
    """Return what the cluster consists of, in words."""
    voters = facts.quorum.voters
    counting = sum(not (voter.unreachable or voter.is_learner) for voter in voters)
    topics = {each.topic for each in facts.partitions}
    leader = (
        "no controller active" if facts.active_controller is None else f"controller {facts.active_controller} active"
    )
    brokers = counted(len(facts.brokers), "broker")
    states = (
        f"{brokers} in unknown states" if facts.in_service is None else f"{facts.in_service} of {brokers} in service"
    )
    return (
        f"{leader}, {counting} of {counted(len(voters), 'voter')} up, {states},"
        f" {counted(len(facts.partitions), 'partition')} in {counted(len(topics), 'topic')}"
    )


def _as_json(facts: ClusterFacts, found: list[Finding], state: str) -> dict[str, Any]:
    return {
        "cluster_id": facts.quorum.cluster_id or None,
        "state": state,
        "controller_id": facts.active_controller,
        "voters": len(facts.quorum.voters),
        "brokers": len(facts.brokers),
        "brokers_in_service": facts.in_service,
        "topics": len({each.topic for each in facts.partitions}),
        "partitions": len(facts.partitions),
        "findings": [asdict(each) for each in found],
    }
