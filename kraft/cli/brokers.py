"""`kraft brokers`: who is there, what each holds, and taking one out of service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from kraft.cli.options import (
    DEFAULT_BOOTSTRAP_SERVER,
    DEFAULT_TIMEOUT_MS,
    BootstrapServer,
    Output,
    OutputFormat,
    Timeout,
    open_admin,
)
from kraft.cli.printing import print_columns, print_json, say

if TYPE_CHECKING:
    from kraft.model.brokers import BrokerActionResult, BrokerDescription

app = typer.Typer(help="Look at the brokers, and take one out of service.", no_args_is_help=True)

BrokerArgument = Annotated[int, typer.Argument(metavar="ID", min=0, help="Id of the broker, its node.id.")]


@app.command("list")
def list_brokers(
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    output: OutputFormat = Output.TABLE,
    timeout_ms: Timeout = DEFAULT_TIMEOUT_MS,
) -> None:
    """List the registered brokers, whether they are in service or not."""
    with open_admin(bootstrap_server, timeout_ms) as admin:
        brokers = admin.describe_brokers()
    if output is Output.JSON:
        print_json([_as_json(broker) for broker in brokers])
        return
    titles = ("BrokerId", "State", "Addresses", "Rack", "Epoch", "Leaders", "Replicas", "InSync", "LogDirs")
    rows = [
        (
            broker.broker_id,
            _state(broker),
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
def describe(
    broker_id: BrokerArgument,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    output: OutputFormat = Output.TABLE,
    timeout_ms: Timeout = DEFAULT_TIMEOUT_MS,
) -> None:
    """Show all that the cluster knows of one broker."""
    from kraft.model.ids import uuid_to_text

    with open_admin(bootstrap_server, timeout_ms) as admin:
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


@app.command("fence")
def fence(
    broker_id: BrokerArgument,
    force: Annotated[bool, typer.Option("--force", help="Also where partitions are left without a leader.")] = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    output: OutputFormat = Output.TABLE,
    timeout_ms: Timeout = DEFAULT_TIMEOUT_MS,
) -> None:
    """Take a broker out of service until `unfence`, over restarts: it leads nothing, and goes on copying."""
    with open_admin(bootstrap_server, timeout_ms) as admin:
        result = admin.fence_broker(broker_id, force=force)
    was = "" if result.changed else " already"
    _report(output, broker_id, "fenced", result, f"Broker {broker_id} is fenced{was}.")
    if result.leaderless and output is Output.TABLE:
        say(f"Without a leader until it is back: {', '.join(result.leaderless)}")


@app.command("unfence")
def unfence(
    broker_id: BrokerArgument,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    output: OutputFormat = Output.TABLE,
    timeout_ms: Timeout = DEFAULT_TIMEOUT_MS,
) -> None:
    """Let a broker back into service, where it is as soon as it has caught up."""
    with open_admin(bootstrap_server, timeout_ms) as admin:
        result = admin.unfence_broker(broker_id)
    words = "is no longer fenced by an operator" if result.changed else "was not fenced by an operator"
    _report(output, broker_id, "unfenced", result, f"Broker {broker_id} {words}.")


@app.command("unregister")
def unregister(
    broker_id: BrokerArgument,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    output: OutputFormat = Output.TABLE,
    timeout_ms: Timeout = DEFAULT_TIMEOUT_MS,
) -> None:
    """Forget a broker that is gone for good. It must be stopped, and hold no replica."""
    with open_admin(bootstrap_server, timeout_ms) as admin:
        result = admin.unregister_broker(broker_id)
    _report(output, broker_id, "unregistered", result, f"Broker {broker_id} is no longer registered.")


@app.command("decommission")
def decommission(
    broker_id: BrokerArgument,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be moved where.")] = False,
    wait_ms: Annotated[int, typer.Option("--wait-ms", min=0, help="How long the moving may take.")] = 86_400_000,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    output: OutputFormat = Output.TABLE,
    timeout_ms: Timeout = DEFAULT_TIMEOUT_MS,
) -> None:
    """Move everything off a broker, and keep it empty, so that it can be stopped for good. May be called again."""
    from kraft.cli.decommission import current_plan, empty

    with open_admin(bootstrap_server, timeout_ms) as admin:
        if dry_run:
            moves = current_plan(admin, broker_id)
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
            else:
                rows = [
                    (move.partition, ",".join(map(str, move.replicas)), ",".join(map(str, move.target)))
                    for move in moves
                ]
                print_columns(("Partition", "Replicas", "Target"), rows)
            return
        shown = -1

        def report(left: int) -> None:
            nonlocal shown
            if left != shown:
                shown = left
                say(f"Broker {broker_id} has {left} replicas left.")

        moved = empty(admin, broker_id, wait_ms / 1_000, report)
    if output is Output.JSON:
        print_json({"broker_id": broker_id, "decommissioned": True, "moved": moved})
    else:
        print(
            f"Broker {broker_id} is empty and fenced, {moved} partitions were moved: stop it, "
            f"then kraft brokers unregister {broker_id}."
        )


def _report(output: Output, broker_id: int, verb: str, result: BrokerActionResult, sentence: str) -> None:
    if output is Output.JSON:
        print_json({"broker_id": broker_id, verb: result.changed, "leaderless": result.leaderless})
    else:
        print(sentence)


def _state(broker: BrokerDescription) -> str:
    if broker.fenced:
        return "fenced"
    return "shutting-down" if broker.in_controlled_shutdown else "active"


def _as_json(broker: BrokerDescription) -> dict[str, Any]:
    from kraft.model.ids import uuid_to_text

    return {
        "broker_id": broker.broker_id,
        "state": _state(broker),
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
