"""`kraft console`: the web console, which people log in to with their users of the clusters."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Final

import typer

from kraft.cli.command_security import properties_of
from kraft.cli.printing import fail, say

_NEEDED: Final = ("jinja2", "starlette", "uvicorn")


def console(
    config: Annotated[
        Path,
        typer.Option(
            "--config",
            "-c",
            metavar="FILE",
            help="Configuration file: the listener and the clusters, as docs/console.md says.",
        ),
    ],
) -> None:
    """Serve the web console until Ctrl-C.

    It has no users and no rights of its own: whoever logs in acts as that user of the cluster, under its ACLs.
    """
    check_installed()
    # Imported late, because they are there only with the extra.
    from kraft.console.config import InvalidConsoleFile, console_config
    from kraft.console.running import run
    from kraft.runtime.cycle_collector import exempt_existing_objects
    from kraft.server.config.components import LoggingSettings
    from kraft.server.process import lifeline, logging_setup
    from kraft.server.process.file_limit import raise_file_limit

    # `kraft dev` is one.
    lifeline.follow_launcher()
    try:
        checked = console_config(properties_of(config, "--config"))
    except InvalidConsoleFile as error:
        for each in error.problems:
            say(f"kraft: {config}: {each}")
        raise typer.Exit(1) from None
    # Each login has connections to brokers, and each browser to the console.
    raise_file_limit()
    # As a node logs: a traceback shows no values, which may be passwords.
    logging_setup.configure(LoggingSettings())
    # A page of thousands of partitions makes the collector scan all objects, which are mostly code.
    exempt_existing_objects()
    run(checked, say)


def check_installed() -> None:
    """End the command if the extra of the console is not installed."""
    if any(find_spec(each) is None for each in _NEEDED):
        fail("the console is not installed: pip install 'kraft-broker[console]'")
