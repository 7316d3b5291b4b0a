"""`kraft server`: start nodes in the foreground or background, and stop them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from kraft.cli import foreground
from kraft.cli.one_line import one_line_errors
from kraft.cli.printing import fail, say

if TYPE_CHECKING:
    from kraft.local.local_nodes import LocalNode

app = typer.Typer(help="Start and stop nodes.", no_args_is_help=True)

START_TIMEOUT_MS: Final = 60_000
STOP_TIMEOUT_MS: Final = 60_000


@app.command("start")
def start(
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="Configuration file of the node.", show_default=False)
    ] = None,
    config: Annotated[
        Path | None, typer.Option("--config", "-c", help="Same as FILE.", metavar="FILE", show_default=False)
    ] = None,
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
    if (file is None) is (config is None):
        problem = "two files are given: name one" if file else "no file is given: name that of the node"
        raise typer.BadParameter(problem, param_hint="FILE")
    named = file or config
    assert named is not None, "one of them is given"
    if daemon:
        _start_in_background(named, log_file, timeout_ms)
        return
    if log_file is not None:
        raise typer.BadParameter(
            "requires --daemon; in the foreground, redirect standard error", param_hint="--log-file"
        )
    raise typer.Exit(foreground.run(named))


def _start_in_background(config: Path, log_file: Path | None, timeout_ms: int) -> None:
    from kraft.local import background_start
    from kraft.server.config.loading import load
    from kraft.server.identity.storage import LOCK_FILE, SUPERVISOR_LOCK_FILE

    with one_line_errors():
        node_config = load(config)
        to = (log_file or background_start.default_log_file(node_config)).absolute()
        started = background_start.start(node_config, to, timeout_ms / 1_000, say=say)
    state = (
        "is in service"
        if started.waits_for is None
        else f"is running, but not in service: it needs {started.waits_for}"
    )
    if started.failed_directories:
        count = len(started.failed_directories)
        directories = "a log directory" if count == 1 else f"{count} log directories"
        state += f", without {directories} that cannot be used: {'; '.join(started.failed_directories)}"
    several = node_config.processes > 1
    with_processes = f" with its {node_config.processes} processes" if several else ""
    lock = node_config.log_dir / (SUPERVISOR_LOCK_FILE if several else LOCK_FILE)
    print(f"Node {node_config.node_id}{with_processes} {state}.")
    print(f"pid {started.pid}, also in {lock}; log: {started.log_file}")


@app.command("stop")
def stop(
    config: Annotated[
        Path | None,
        typer.Option("--config", "-c", metavar="FILE", help="Stop the node with this configuration file."),
    ] = None,
    all_nodes: Annotated[
        bool, typer.Option("--all", help="Stop all your nodes on this machine, whatever started them.")
    ] = False,
    cluster_id: Annotated[str | None, typer.Option("--cluster-id", help="Stop your nodes of this cluster.id.")] = None,
    node_id: Annotated[
        int | None,
        typer.Option("--node-id", min=0, help="Of the chosen nodes, stop only those with this node.id."),
    ] = None,
    timeout_ms: Annotated[
        int, typer.Option("--timeout-ms", min=1, help="Longest wait for the nodes to stop, in milliseconds.")
    ] = STOP_TIMEOUT_MS,
) -> None:
    """Stop nodes of yours on this machine.

    With -c, it is the node of a file; with --cluster-id, those of a cluster; with --all, every one. Alone, the command
    stops nothing, and lists what it could stop. Nodes of other users are never stopped, and nodes of 'kraft dev' only
    if -c names them.
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
    if config is None and cluster_id is None and not all_nodes:
        for node in chosen:
            say(f"{node}, with {', '.join(map(str, node.log_dirs))}")
        fail("nothing was stopped: name what to stop with -c FILE, --cluster-id ID or --all")
    outcome = local_nodes.stop(chosen, timeout_ms / 1_000, _say_waiting)
    for node in outcome.stopped:
        print(f"Stopped {node}.")
    if outcome.still_running:
        named = "; ".join(f"{node}: {_how_to_end(node)}" for node in outcome.still_running)
        fail(f"not stopped within {timeout_ms / 1_000:g} s: {named}")


def _say_waiting(nodes: Sequence[LocalNode]) -> None:
    for node in nodes:
        what = _how_to_end(node) if node.is_suspended else "it moves its leaderships away and closes its logs"
        say(f"Waiting for {node}: {what}")


def _how_to_end(node: LocalNode) -> str:
    if node.is_suspended:
        return f"it is suspended (SIGSTOP): resume it with 'kill -CONT {node.pid}', and it stops"
    return f"see its log, or kill it with 'kill -9 {node.pid}'"
