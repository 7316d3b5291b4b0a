"""`kraft health`: the state of the cluster in one line, for monitors and prompts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from kraft.cli.cluster.commands import EXIT_CODES, extent
from kraft.cli.options import DEFAULT_BOOTSTRAP_SERVER, DEFAULT_TIMEOUT_MS, BootstrapServer, Timeout
from kraft.model.printable import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kraft.health.findings import ClusterFacts, Finding


def health(
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER, timeout_ms: Timeout = DEFAULT_TIMEOUT_MS
) -> None:
    """Show in one line whether the cluster is healthy.

    If it is not, the line has the worst of what is wrong.

    Exit code: 0 healthy; 3 degraded, all works but less safely than configured; 4 critical, something does not work; 1
    if no broker answers. 'kraft cluster health' shows everything that is wrong, and what to do.
    """
    from kraft.cli.cluster.facts import gather
    from kraft.health.findings import findings, state_of

    facts = gather(bootstrap_server, timeout_ms)
    found = findings(facts)
    state = state_of(found)
    print(printable(f"{state}: {_in_one_line(facts, found)}"))
    raise typer.Exit(EXIT_CODES[state])


def _in_one_line(facts: ClusterFacts, found: Sequence[Finding]) -> str:
    """Return the worst finding and how many more there are; without one, what the cluster consists of."""
    if not found:
        return extent(facts)
    more = f", and {len(found) - 1:,} more" if len(found) > 1 else ""
    return f"{found[0].what}{more} (what to do: kraft cluster health)"
