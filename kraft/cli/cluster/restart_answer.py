"""Output of `kraft brokers safe-to-restart`, and its exit code."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from msgspec.structs import asdict

from kraft.cli.cluster.facts import gather
from kraft.cli.options import Output
from kraft.cli.printing import print_columns, print_json, say
from kraft.health.findings import listed
from kraft.health.restart import Verdict, verdict
from kraft.model.errors import KraftError
from kraft.model.printable import counted

SAFE: Final = 0
NOT_SAFE: Final = 1
UNKNOWN: Final = 2
"""Exit codes. A command that is called wrongly ends with 2 as well, so that only 0 ever means safe."""

SHOWN_MAX: Final = 20
"""Partitions in the table; all are in the JSON."""


def answer(node_ids: Sequence[int], bootstrap_server: str, timeout_ms: int, output: Output) -> int:
    """Print whether the nodes may be restarted together, and return the exit code."""
    nodes = sorted(set(node_ids))
    try:
        found = verdict(gather(bootstrap_server, timeout_ms, searches_transactions=False), nodes)
    except KraftError as error:
        if output is Output.JSON:
            print_json({"node_ids": nodes, "safe": None, "error": str(error)})
        say(f"kraft: it could not be found out whether a restart is safe: {error}")
        return UNKNOWN
    if output is Output.JSON:
        print_json(_as_json(nodes, found))
    else:
        _print(nodes, found)
    return SAFE if found.is_safe else NOT_SAFE


def _print(nodes: Sequence[int], found: Verdict) -> None:
    subject = f"Node {nodes[0]}" if len(nodes) == 1 else f"Nodes {listed(nodes)}"
    together = " together" if len(nodes) > 1 else ""
    if found.is_safe:
        here = f"{counted(found.replicas, 'replica')} here: {_kept(found)}" if found.replicas else "no replica is here"
        print(f"{subject} may be restarted{together}: {here}.")
    else:
        print(f"{subject} should not be restarted{together} now: {', and '.join(_summary(found))}.")
    for reason in found.controllers:
        print(f"Controllers: {reason}.")
    if found.partitions:
        rows = [(f"{each.topic}-{each.partition}", each.what) for each in found.partitions[:SHOWN_MAX]]
        print_columns(("Partition", "WithoutIt" if len(nodes) == 1 else "WithoutThem"), rows)
    if (more := len(found.partitions) - SHOWN_MAX) > 0:
        print(f"and {counted(more, 'partition')} more: see --output json")
    for note in found.notes:
        print(f"Note: {note}.")


def _kept(found: Verdict) -> str:
    if not found.below:
        return "each partition keeps a leader and its minimum in sync"
    return f"nothing gets worse, but {counted(found.below, 'partition')} below min.insync.replicas already"


def _summary(found: Verdict) -> Iterator[str]:
    without_leader = sum(each.has_no_leader for each in found.partitions)
    if without_leader:
        yield f"{counted(without_leader, 'partition')} would have no leader"
    if below := len(found.partitions) - without_leader:
        yield f"{counted(below, 'partition')} would be below min.insync.replicas"
    if found.controllers:
        yield "the controllers would have no majority"


def _as_json(nodes: Sequence[int], found: Verdict) -> dict[str, Any]:
    return {
        "node_ids": nodes,
        "safe": found.is_safe,
        "partitions": [asdict(each) for each in found.partitions],
        "controllers": found.controllers,
        "notes": found.notes,
        "replicas": found.replicas,
        "below_min_isr": found.below,
    }
