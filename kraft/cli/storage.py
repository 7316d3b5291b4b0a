"""`kraft storage`: format log directories before the first start of a node."""

from __future__ import annotations

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


@app.command("format")
def format_storage(config: ConfigFile, cluster_id: ClusterId = None) -> None:
    """Format the log directories of a node.

    With node.processes above 1, those of all its processes. Each directory is formatted once; formatting it again
    changes nothing.
    """
    from kraft.server.config.loading import load
    from kraft.server.identity import process_storage

    with one_line_errors():
        node_config = load(config)
        formatted = process_storage.format_all(node_config, cluster_id)
        for one in formatted:
            did = "formatted" if one.created else "already formatted, nothing changed"
            print(f"{one.directory}: {did}: node {one.meta.node_id} of cluster {one.meta.cluster_id}")
        secret = _secret_of_this_machine(node_config, formatted[0].meta.cluster_id)
    if secret is not None:
        print(secret)


def _secret_of_this_machine(config: NodeConfig, cluster_id: str) -> str | None:
    """Return a line about the secret that the cluster's nodes on this machine share; None if they share none."""
    from kraft.server.config.checks import spans_machines
    from kraft.server.identity import machine_secret

    if config.security.secret_file is not None or spans_machines(config):
        return None
    try:
        found = machine_secret.find_or_create(cluster_id)
    except machine_secret.NoPlaceForSecret:
        if config.is_whole_cluster:
            return None
        raise
    return (
        f"{found.path}: cluster secret {'created' if found.created else 'already exists'}: nodes of this user on this"
        " machine use it by default; nodes of other users or containers need a copy and cluster.secret.file"
    )


@app.command("random-uuid")
def random_uuid() -> None:
    """Print a new cluster id."""
    from kraft.server.identity.storage import random_cluster_id

    print(random_cluster_id())
