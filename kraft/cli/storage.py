"""`kraft storage`: log directories before a node's first start."""

from __future__ import annotations

from typing import Annotated

import typer

from kraft.cli.one_line import ConfigFile, one_line_errors

app = typer.Typer(help="Prepare the log directories of nodes.", no_args_is_help=True)

ClusterId = Annotated[
    str | None,
    typer.Option("--cluster-id", "-t", help="The same for every node of a cluster; by default cluster.id of the file."),
]


@app.command("format")
def format_storage(config: ConfigFile, cluster_id: ClusterId = None) -> None:
    """Make a node's log directories its own. Needed once for each; doing it again changes nothing."""
    from kraft.server import storage
    from kraft.server.config import load

    with one_line_errors():
        formatted = storage.format(load(config), cluster_id)
    for one in formatted:
        did = "formatted" if one.created else "was formatted already, nothing is changed"
        print(f"{one.directory}: {did}: node {one.meta.node_id} of cluster {one.meta.cluster_id}")


@app.command("random-uuid")
def random_uuid() -> None:
    """Print a new cluster id."""
    from kraft.server.storage import random_cluster_id

    print(random_cluster_id())
