"""`kraft server`: start nodes in the foreground or background, and stop them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from kraft.cli import foreground
from kraft.cli.one_line import ConfigFile, one_line_errors
from kraft.cli.printing import fail

if TYPE_CHECKING:
    from kraft.local.local_nodes import LocalNode

app = typer.Typer(help="Start and stop nodes.", no_args_is_help=True)

START_TIMEOUT_MS: Final = 60_000
STOP_TIMEOUT_MS: Final = 60_000


@app.command("start")
def start(
    config: ConfigFile,
    daemon: Annotated[
        bool,
        typer.Option("--daemon", "-daemon", help="Start the node in the background; return when it is in service."),
    ] = False,
    log_file: Annotated[
        Path | None,
        typer.Option(
            "--log-file",
            metavar="FILE",
            help="Log file of a node started with --daemon. By default LOG_DIR.log, where LOG_DIR is its first log"
            " directory.",
        ),
    ] = None,
    timeout_ms: Annotated[
        int, typer.Option("--timeout-ms", min=1, help="Longest wait for a node started with --daemon, in milliseconds.")
    ] = START_TIMEOUT_MS,
) -> None:
    """Run a node, or all processes of its file, until SIGTERM or Ctrl-C. It logs to standard error."""
    if daemon:
        _start_in_background(config, log_file, timeout_ms)
        return
    if log_file is not None:
        raise typer.BadParameter(
            "requires --daemon; in the foreground, redirect standard error", param_hint="--log-file"
        )
    raise typer.Exit(foreground.run(config))


def _start_in_background(config: Path, log_file: Path | None, timeout_ms: int) -> None:
    from kraft.local import background_start
    from kraft.server.config.loading import load
    from kraft.server.identity.storage import LOCK_FILE, SUPERVISOR_LOCK_FILE

    with one_line_errors():
        node_config = load(config)
        to = (log_file or background_start.default_log_file(node_config)).absolute()
        started = background_start.start(node_config, to, timeout_ms / 1_000)
    state = (
        "is in service"
        if started.waits_for is None
        else f"is running, but not in service: it needs {started.waits_for}"
    )
    several = node_config.processes > 1
    with_processes = f" with its {node_config.processes} processes" if several else ""
    lock = node_config.log_dir / (SUPERVISOR_LOCK_FILE if several else LOCK_FILE)
    print(f"Node {node_config.node_id}{with_processes} {state}.")
    print(f"pid {started.pid}, also in {lock}; log: {started.log_file}")


@app.command("stop")
def stop(
    config: Annotated[
        Path | None,
        typer.Option("--config", "-c", metavar="FILE", help="Stop only the node with this configuration file."),
    ] = None,
    node_id: Annotated[int | None, typer.Option("--node-id", min=0, help="Stop only nodes with this node.id.")] = None,
    cluster_id: Annotated[str | None, typer.Option("--cluster-id", help="Stop only nodes of this cluster.id.")] = None,
    timeout_ms: Annotated[
        int, typer.Option("--timeout-ms", min=1, help="Longest wait for the nodes to stop, in milliseconds.")
    ] = STOP_TIMEOUT_MS,
) -> None:
    """Stop your nodes on this machine.

    By default all of them are stopped, otherwise those that match the options. If they are of several clusters, choose
    one with --cluster-id or -c. Nodes of other users are never stopped, and nodes of 'kraft dev' only if -c names them.
    """
    from kraft.local import local_nodes
    from kraft.server.config.loading import load

    with one_line_errors():
        directories = None if config is None else set(load(config).log_dirs)
    matching = [
        node
        for node in local_nodes.find()
        if (node_id is None or node.node_id == node_id) and (cluster_id is None or node.cluster_id == cluster_id)
    ]
    chosen = [
        node
        for node in matching
        if not node.is_supervised
        and (not node.has_launcher if directories is None else not directories.isdisjoint(node.log_dirs))
    ]
    if not chosen and node_id is not None and any(node.is_supervised for node in matching):
        fail(f"node {node_id} is one of several processes, which are stopped together: stop the node of their file")
    if not chosen:
        fail("no matching node of this user runs on this machine")
    if config is None and len({node.cluster_id for node in chosen}) > 1:
        fail(
            f"nodes of several clusters match: {_by_cluster(chosen)}: "
            "choose a cluster with --cluster-id, or a node with -c"
        )
    outcome = local_nodes.stop(chosen, timeout_ms / 1_000)
    for node in outcome.stopped:
        print(f"Stopped {node}.")
    if outcome.still_running:
        named = ", ".join(map(str, outcome.still_running))
        fail(f"not stopped within {timeout_ms / 1_000:g} s: {named}: see its log, or kill it with 'kill -9 PID'")


def _by_cluster(nodes: Sequence[LocalNode]) -> str:
    """Return the clusters with the ids of their nodes, from nodes in the order of cluster ids."""
    return ", ".join(
        f"{cluster_id} (node.id {', '.join(str(node.node_id) for node in members)})"
        for cluster_id, members in groupby(nodes, key=lambda node: node.cluster_id)
    )
