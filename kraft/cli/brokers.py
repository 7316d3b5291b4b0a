"""`kraft brokers`: list brokers, fence them, and remove them from the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from kraft.cli.inactive import inactive_controller, warn_of
from kraft.cli.options import (
    DEFAULT_BOOTSTRAP_SERVER,
    DEFAULT_TIMEOUT_MS,
    BootstrapServer,
    Output,
    OutputFormat,
    Timeout,
    open_admin,
    throttle_option,
)
from kraft.cli.printing import fail, joined, print_columns, print_json, say
from kraft.model.printable import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kraft.client import Admin
    from kraft.client.model.errors import NoActiveController
    from kraft.model.brokers import BrokerActionResult, BrokerDescription
    from kraft.moves.leaving import ReplicaMovePlan

app = typer.Typer(help="List brokers, fence them, and remove them from the cluster.", no_args_is_help=True)

BrokerArgument = Annotated[int, typer.Argument(metavar="ID", min=0, help="Id of the broker (its node.id).")]


def _with_admin(act: Callable[[Admin, int, Output], None]) -> Callable[..., None]:
    """Return the command that does this with one broker, and has no options but the usual ones."""

    def command(
        broker_id: BrokerArgument,
        bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
        output: OutputFormat = Output.TABLE,
        timeout_ms: Timeout = DEFAULT_TIMEOUT_MS,
    ) -> None:
        with open_admin(bootstrap_server, timeout_ms) as admin:
            act(admin, broker_id, output)

    command.__doc__ = act.__doc__
    return command


@app.command("list")
def list_brokers(
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    output: OutputFormat = Output.TABLE,
    timeout_ms: Timeout = DEFAULT_TIMEOUT_MS,
) -> None:
    """List the registered brokers, in service or fenced.

    If no controller is active, nobody notices that a broker is gone: its state is then unknown.
    """
    with open_admin(bootstrap_server, timeout_ms) as admin:
        inactive = inactive_controller(admin)
        brokers = admin.describe_brokers()
    if output is Output.JSON:
        print_json([_as_json(broker, inactive) for broker in brokers])
    else:
        _print_brokers(brokers, inactive)
    warn_of(inactive)


def _print_brokers(brokers: Sequence[BrokerDescription], inactive: NoActiveController | None) -> None:
    titles = ("BrokerId", "State", "Addresses", "Rack", "Epoch", "Leaders", "Replicas", "InSync", "LogDirs")
    rows = [
        (
            broker.broker_id,
            _state(broker) if inactive is None else f"unknown (was {_state(broker)})",
            ",".join(map(str, broker.addresses)),
            broker.rack or "-",
            broker.broker_epoch,
            broker.leaders,
            broker.replicas,
            broker.in_sync,
            len(broker.log_directory_ids),
        )
        for broker in brokers
    ]
    print_columns(titles, rows)


@app.command("describe")
@_with_admin
def describe(admin: Admin, broker_id: int, output: Output) -> None:
    """Show the details of one broker."""
    from kraft.model.ids import uuid_to_text

    (broker,) = admin.describe_brokers([broker_id])
    if output is Output.JSON:
        print_json(_as_json(broker))
        return
    facts = [
        ("BrokerId", broker.broker_id),
        ("State", _state(broker)),
        ("FencedByOperator", "yes" if broker.fenced_by_operator else "no"),
        ("Epoch", broker.broker_epoch),
        ("Rack", broker.rack or "-"),
        ("Addresses", ", ".join(map(str, broker.addresses))),
        ("Leaders", broker.leaders),
        ("Replicas", broker.replicas),
        ("InSync", broker.in_sync),
        ("LogDirectories", ", ".join(uuid_to_text(each) for each in broker.log_directory_ids)),
        ("Features", ", ".join(f"{each.feature} {each.min_level} to {each.max_level}" for each in broker.features)),
    ]
    for name, fact in facts:
        print(f"{name + ':':<18}{fact}".rstrip())


@app.command("log-dirs")
def log_directories(
    broker_ids: Annotated[
        list[int] | None, typer.Argument(metavar="[ID]...", help="Brokers; by default all in service.")
    ] = None,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    output: OutputFormat = Output.TABLE,
    timeout_ms: Timeout = DEFAULT_TIMEOUT_MS,
) -> None:
    """Show log directories with their replicas and free space.

    With --output json, as kafka-log-dirs prints them, with the size of each replica.
    """
    from kraft.cli.log_directories import as_json, print_directories

    with open_admin(bootstrap_server, timeout_ms) as admin:
        found = admin.describe_log_directories()
        known = broker_ids or [each.broker_id for each in admin.describe_brokers()]
    if missing := sorted(set(broker_ids or ()) - found.keys()):
        fail(f"broker {missing[0]} is not in service")
    chosen = {each: found[each] for each in broker_ids or found}
    if output is Output.JSON:
        print_json(as_json(chosen))
    else:
        print_directories(chosen)
    if left_out := sorted(set(known) - found.keys()):
        say(f"kraft: left out, because not in service: {joined(left_out)}")


@app.command("fence")
def fence(
    broker_id: BrokerArgument,
    force: Annotated[bool, typer.Option("--force", help="Fence even if partitions are left without a leader.")] = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    output: OutputFormat = Output.TABLE,
    timeout_ms: Timeout = DEFAULT_TIMEOUT_MS,
) -> None:
    """Take a broker out of service until it is unfenced.

    A fenced broker leads no partition, but its replicas still follow. The operator fence outlasts restarts.
    """
    with open_admin(bootstrap_server, timeout_ms) as admin:
        result = admin.fence_broker(broker_id, force=force)
    already = "" if result.changed else "already "
    _report(output, broker_id, "fenced", result, f"Broker {broker_id} is {already}fenced.")
    if result.leaderless and output is Output.TABLE:
        say(f"Partitions without a leader until it is unfenced: {', '.join(result.leaderless)}")


@app.command("unfence")
@_with_admin
def unfence(admin: Admin, broker_id: int, output: Output) -> None:
    """Remove the operator fence of a broker.

    The broker is in service again as soon as it has caught up with the metadata.
    """
    result = admin.unfence_broker(broker_id)
    sentence = (
        f"Operator fence of broker {broker_id} removed."
        if result.changed
        else f"Broker {broker_id} has no operator fence."
    )
    _report(output, broker_id, "unfenced", result, sentence)


@app.command("unregister")
@_with_admin
def unregister(admin: Admin, broker_id: int, output: Output) -> None:
    """Remove a broker that is gone for good.

    It must be stopped and hold no replica: 'kraft brokers decommission' moves its replicas to the others, also while
    it is down.
    """
    admin.unregister_broker(broker_id)
    if output is Output.JSON:
        print_json({"broker_id": broker_id, "unregistered": True, "leaderless": []})
    else:
        print(f"Broker {broker_id} unregistered.")
    _warn_of_controller(admin, broker_id)


@app.command("decommission")
def decommission(
    broker_id: BrokerArgument,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the moves without starting them.")] = False,
    throttle: Annotated[
        int | None,
        throttle_option("Most that each broker sends and receives for the moves, in bytes per second, until the end."),
    ] = None,
    wait_ms: Annotated[
        int, typer.Option("--wait-ms", min=0, help="Longest wait for the moves, in milliseconds.")
    ] = 86_400_000,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    output: OutputFormat = Output.TABLE,
    timeout_ms: Timeout = DEFAULT_TIMEOUT_MS,
) -> None:
    """Move every replica off a broker and fence it.

    The broker can then be stopped for good. If the command is interrupted, run it again to continue, with another
    --throttle if you like.
    """
    from kraft.cli.decommission import empty, interruption
    from kraft.moves.leaving import current_plan

    with open_admin(bootstrap_server, timeout_ms) as admin:
        if dry_run:
            _print_plan(current_plan(admin, broker_id), output)
            return
        shown: int | None = None

        def report(left: int) -> None:
            nonlocal shown
            if left != shown:
                shown = left
                say(f"Broker {broker_id}: {counted(left, 'replica')} left to move.")

        try:
            moved = empty(admin, broker_id, wait_ms / 1_000, report, throttle)
        except KeyboardInterrupt:
            say(interruption(broker_id, shown))
            raise
        if output is Output.JSON:
            print_json({"broker_id": broker_id, "decommissioned": True, "moved": moved})
        else:
            print(
                f"Broker {broker_id} is empty and fenced ({counted(moved, 'partition')} moved): stop it, "
                f"then run kraft brokers unregister {broker_id}."
            )
        _warn_of_controller(admin, broker_id)


@app.command("loggers")
def loggers(
    broker_id: BrokerArgument,
    to_set: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=LEVEL", help="Level of a logger. Repeatable.")
    ] = None,
    to_delete: Annotated[
        list[str] | None,
        typer.Option("--delete", metavar="NAME", help="Logger without a level of its own. Repeatable."),
    ] = None,
    output: OutputFormat = Output.TABLE,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    timeout_ms: Timeout = DEFAULT_TIMEOUT_MS,
) -> None:
    """Show the levels of a broker's loggers, and change them.

    A logger is a module, such as kraft.server.broker.lifecycle. A package, such as kraft.server.coordinator, and root
    set the level of all below them that have none of their own. Levels are DEBUG, INFO, WARN and ERROR; when the broker
    stops, they are forgotten.
    """
    from kraft.cli.loggers import change_and_show

    with open_admin(bootstrap_server, timeout_ms) as admin:
        change_and_show(admin, broker_id, to_set or [], to_delete or [], output)


@app.command("safe-to-restart")
def safe_to_restart(
    node_ids: Annotated[
        list[int], typer.Argument(metavar="ID", min=0, help="Ids of nodes (node.id) that restart at the same time.")
    ],
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    output: OutputFormat = Output.TABLE,
    timeout_ms: Timeout = DEFAULT_TIMEOUT_MS,
) -> None:
    """Check whether nodes can be restarted now without harm.

    Without them each partition must have a leader and min.insync.replicas, those of internal topics as well, and the
    controllers a majority. Brokers that shut down or do not answer are not counted on.

    Exit code: 0 safe; 1 not safe; 2 it could not be found out.
    """
    from kraft.cli.cluster.restart_answer import answer

    raise typer.Exit(answer(node_ids, bootstrap_server, timeout_ms, output))


def _print_plan(moves: Sequence[ReplicaMovePlan], output: Output) -> None:
    if output is Output.JSON:
        print_json(
            [
                {
                    "topic": move.partition.topic,
                    "partition": move.partition.partition,
                    "replicas": move.replicas,
                    "target": move.target,
                }
                for move in moves
            ]
        )
        return
    rows = [(move.partition, joined(move.replicas), joined(move.target)) for move in moves]
    print_columns(("Partition", "Replicas", "Target"), rows)


def _warn_of_controller(admin: Admin, broker_id: int) -> None:
    """Say so if the broker's node is a controller, too: it stays one, and is missed when it is stopped."""
    from kraft.client import KraftError

    try:
        voters = [voter.node_id for voter in admin.describe_quorum(wait_for_leader=False).voters]
    except KraftError:
        # The command has succeeded, which an error would belie.
        return
    if broker_id not in voters:
        return
    spare = len(voters) - 1 - (len(voters) // 2 + 1)
    without = "no metadata can change" if spare < 0 else f"{spare or 'none'} of the others may fail"
    say(
        f"kraft: node {broker_id} is one of {counted(len(voters), 'controller')} and stays one: keep its process"
        f" running, or {without}; to remove a controller is not supported yet"
    )


def _report(output: Output, broker_id: int, verb: str, result: BrokerActionResult, sentence: str) -> None:
    if output is Output.JSON:
        print_json({"broker_id": broker_id, verb: result.changed, "leaderless": result.leaderless})
    else:
        print(sentence)


def _state(broker: BrokerDescription) -> str:
    if broker.fenced:
        return "fenced"
    return "shutting-down" if broker.in_controlled_shutdown else "in-service"


def _as_json(broker: BrokerDescription, inactive: NoActiveController | None = None) -> dict[str, Any]:
    """Return the broker's facts. Without an active controller the state is unknown, and the last known one is added,
    with the reason and, for an unreachable voter, its last contact in milliseconds since 1970 (-1 for never).
    """
    from kraft.model.ids import uuid_to_text

    states: dict[str, Any] = {"state": _state(broker)}
    if inactive is not None:
        voters = {voter.node_id: voter for voter in inactive.description.voters if voter.unreachable}
        voter = voters.get(broker.broker_id)
        states = {
            "state": "unknown",
            "last_known_state": _state(broker),
            "unreachable_since_ms": None if voter is None else voter.last_fetch_timestamp_ms,
            "error": inactive.message,
        }
    return {
        "broker_id": broker.broker_id,
        **states,
        "fenced_by_operator": broker.fenced_by_operator,
        "epoch": broker.broker_epoch,
        "rack": broker.rack or None,
        "addresses": [{"listener": each.listener, "host": each.host, "port": each.port} for each in broker.addresses],
        "leaders": broker.leaders,
        "replicas": broker.replicas,
        "in_sync": broker.in_sync,
        "log_directories": [uuid_to_text(each) for each in broker.log_directory_ids],
        "features": {
            each.feature: {"min_level": each.min_level, "max_level": each.max_level} for each in broker.features
        },
    }
