"""The facts about a cluster, as a command's client finds them out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraft.cli.command_security import command_security
from kraft.cli.options import open_admin
from kraft.health import facts

if TYPE_CHECKING:
    from kraft.health.findings import ClusterFacts


def gather(bootstrap_server: str, timeout_ms: int, *, searches_transactions: bool = True) -> ClusterFacts:
    """Ask the cluster. Raises Unreachable if no broker answers."""
    with open_admin(bootstrap_server, min(timeout_ms, facts.PROBE_MS)) as admin:
        return facts.gather(
            admin, open_admin, timeout_ms, tls=command_security().tls, searches_transactions=searches_transactions
        )
