"""`kraft security`: the files that a secured cluster needs."""

from __future__ import annotations

import re
import socket
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Final

import typer

from kraft.cli.one_line import one_line_errors

app = typer.Typer(help="Make the certificates and the administrator of a cluster.", no_args_is_help=True)

VALIDITY_DAYS: Final = 825

_HOST: Final = re.compile(r"[A-Za-z0-9_*][A-Za-z0-9_.:*-]*")


@app.callback()
def security() -> None:
    """Make the certificates and the administrator of a cluster."""


@app.command("init")
def init(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="Directory for the files; created if it does not exist.")
    ],
    node: Annotated[
        list[str] | None,
        typer.Option(
            "--node",
            metavar="HOST[,HOST...]",
            help="Names and addresses by which one node is reached; the first names its files. May be repeated."
            " [default: localhost]",
            show_default=False,
        ),
    ] = None,
    validity_days: Annotated[
        int, typer.Option("--validity-days", min=1, max=3650, help="Days for which certificates of nodes are valid.")
    ] = VALIDITY_DAYS,
) -> None:
    """Make certificates, an administrator and client settings.

    Passwords and keys are in files for this user only, and are never printed. Nothing is overwritten: to add a node,
    run it again with its --node; to renew a certificate, move its file away first.
    """
    from kraft.local import security_files

    nodes = [_hosts(text) for text in node] if node else [["localhost", *_name_of_this_machine()]]
    with one_line_errors():
        files, made = security_files.make(directory, nodes, datetime.now(UTC), timedelta(days=validity_days))
        for each in made:
            print(f"{each.path}: {'created' if each.created else 'exists, nothing changed'}: {each.content}")
        for hosts in nodes:
            until = security_files.end_of_validity(files.keystore(hosts[0]))
            print(f"The certificate of {hosts[0]} is valid until {until:%Y-%m-%d}")
    print(f"The audit log of each node is {files.audit_log}: to move it, change audit.log.path in the node's settings")
    print(f"Next: add {files.node(nodes[0][0])} to the node's configuration file, and before its first start run")
    print(f"  kraft storage format -c FILE --add-scram '{files.admin_argument()}'")
    print(f"Then: kraft topics list --command-config {files.client}")


def _hosts(text: str) -> list[str]:
    """Return the hosts of one --node. Raises BadParameter."""
    hosts = [host.strip() for host in text.split(",")]
    for host in hosts:
        if not _HOST.fullmatch(host):
            raise typer.BadParameter(f"{host!r} is not a host name or an address", param_hint="--node")
    return hosts


def _name_of_this_machine() -> list[str]:
    return [name for name in (socket.gethostname(),) if _HOST.fullmatch(name)]
