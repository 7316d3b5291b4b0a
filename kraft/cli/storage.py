"""`kraft storage`: format log directories before the first start of a node."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kraft.cli.one_line import ConfigFile, one_line_errors

if TYPE_CHECKING:
    from kraft.server.config.node_config import NodeConfig

app = typer.Typer(help="Format the log directories of nodes.", no_args_is_help=True)

ClusterId = Annotated[
    str | None,
    typer.Option("--cluster-id", "-t", help="Id of the cluster; by default cluster.id of the configuration file."),
]


FromController = Annotated[
    Path | None,
    typer.Option(
        "--from-controller",
        metavar="DIR",
        help="Directory of the stopped single controller whose metadata log the new controller gets.",
    ),
]


AddScram = Annotated[
    list[str] | None,
    typer.Option(
        "--add-scram",
        "-S",
        metavar="MECHANISM=[name=USER,password-file=FILE]",
        help="Create this user with the cluster. password-file= may be Kafka's password=, which others see in the list"
        " of processes, or its salt=, saltedpassword= and iterations=. May be repeated.",
        show_default=False,
    ),
]


Standalone = Annotated[
    bool,
    typer.Option(
        "--standalone", help="Format the only controller of a cluster; refused if the configuration names others."
    ),
]


@app.command("format")
def format_storage(
    config: ConfigFile,
    cluster_id: ClusterId = None,
    from_controller: FromController = None,
    add_scram: AddScram = None,
    standalone: Standalone = False,
) -> None:
    """Format the log directories of a node.

    With node.processes above 1, those of all its processes. Each directory is formatted once; formatting it again
    changes nothing. With --from-controller, a new controller gets the metadata log of the old one: see grow-quorum.
    With --add-scram, the cluster begins with these users: format all its controllers alike.
    """
    from kraft.cli.scram_users import first_users
    from kraft.server.config.loading import load
    from kraft.server.controller import bootstrap, quorum_growth
    from kraft.server.identity import process_storage

    users = first_users(add_scram or ())
    if users and from_controller is not None:
        raise typer.BadParameter("the metadata log of --from-controller has its users", param_hint="--add-scram")
    with one_line_errors():
        node_config = load(config)
        if standalone and [each.node_id for each in node_config.quorum.voters] != [node_config.node_id]:
            voters = ",".join(map(str, node_config.quorum.voters))
            raise typer.BadParameter(
                f"controller.quorum.voters={voters} names other controllers: leave it out", param_hint="--standalone"
            )
        if from_controller is not None:
            # Before anything is formatted.
            cluster_id = quorum_growth.check_source(node_config, from_controller, cluster_id)
        if users:
            formatted = bootstrap.format_with_users(node_config, cluster_id, users)
        else:
            formatted = process_storage.format_all(node_config, cluster_id)
        for one in formatted:
            did = "formatted" if one.created else "already formatted, nothing changed"
            print(f"{one.directory}: {did}: node {one.meta.node_id} of cluster {one.meta.cluster_id}")
        secret = _secret_of_this_machine(node_config, formatted[0].meta.cluster_id)
        copied = None if from_controller is None else quorum_growth.copy_log(node_config, from_controller)
    if secret is not None:
        print(secret)
    for user in users:
        where = "" if node_config.is_controller else ": not here, because this node is no controller"
        print(f"The cluster begins with user {user.name!r}{where}")
    if copied is not None:
        print(f"{copied.directory}: metadata log copied from {from_controller}, up to entry {copied.entries}")


@app.command("grow-quorum")
def grow_quorum(config: ConfigFile) -> None:
    """Let a stopped single controller leave its quorum to grow it.

    Its file names all controllers in controller.quorum.voters. Each new one then gets its metadata log by kraft storage
    format --from-controller. The quorum forms when all of them run.
    """
    from kraft.server.config.loading import load
    from kraft.server.controller import quorum_growth

    with one_line_errors():
        node_config = load(config)
        left = quorum_growth.leave_quorum(node_config)
    did = "left its quorum" if left.changed else "has left its quorum already, nothing changed"
    print(f"{left.directory}: node {node_config.node_id} {did}; its metadata log ends at entry {left.entries}")
    for voter in left.voters:
        if voter != node_config.node_id:
            print(f"Next: kraft storage format -c FILE-OF-NODE-{voter} --from-controller {left.directory}")
    print(
        f"The quorum forms when the controllers {', '.join(map(str, left.voters))} all run. Existing topics keep their"
        " replicas, also __consumer_offsets."
    )
    print("Next, when it is formed: kraft topics reassign --reassignment-json-file FILE --execute, with more replicas")


def _secret_of_this_machine(config: NodeConfig, cluster_id: str) -> str | None:
    """Return a line about the secret that the cluster's nodes on this machine share; None if they share none."""
    from kraft.server.config.node_authentication import spans_machines
    from kraft.server.identity import machine_secret

    if config.security.secret_file is not None or spans_machines(config):
        return None
    try:
        found = machine_secret.find_or_create(cluster_id)
    except machine_secret.NoPlaceForSecret:
        if config.is_whole_cluster:
            return None
        raise
    did = "created" if found.created else "already exists"
    return f"{found.path}: cluster secret {did}: this user's nodes on this machine share it"


@app.command("random-uuid")
def random_uuid() -> None:
    """Print a new cluster id."""
    from kraft.server.identity.storage import random_cluster_id

    print(random_cluster_id())
