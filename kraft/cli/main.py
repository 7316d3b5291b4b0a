"""The `kraft` command. Each subcommand is a module of its own, loaded only when it is called."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from typing import Annotated, Final, NoReturn

import typer

from kraft import __version__
from kraft.cli import old_options
from kraft.cli.foreground import INTERRUPTED
from kraft.cli.plain_help import use_plain_help
from kraft.model.errors import KraftError

COMMANDS: Final = {
    "dev": "kraft.cli.dev",
    "demo": "kraft.cli.demo",
    "storage": "kraft.cli.storage",
    "server": "kraft.cli.server",
    "topics": "kraft.cli.topics.commands",
    "produce": "kraft.cli.produce",
    "consume": "kraft.cli.consume",
    "configs": "kraft.cli.configs",
    "brokers": "kraft.cli.brokers",
    "quorum": "kraft.cli.quorum",
    "metadata": "kraft.cli.metadata",
    "features": "kraft.cli.features",
    "groups": "kraft.cli.groups.commands",
    "transactions": "kraft.cli.transactions.commands",
    "log": "kraft.cli.log",
}
"""Modules by command: a group has a typer `app`, a single command a function of its name."""


def application(arguments: list[str]) -> typer.Typer:
    """Return the command line; if the arguments call a command, only that command is loaded."""
    app = typer.Typer(
        name="kraft",
        help="Run and operate Kraft, a message broker without ZooKeeper.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    # A callback keeps typer from taking a single command for the whole application.
    app.callback()(_kraft)
    called = [name for name in arguments[:1] if name in COMMANDS]
    for name in called or COMMANDS:
        module = importlib.import_module(COMMANDS[name])
        group = getattr(module, "app", None)
        if isinstance(group, typer.Typer):
            app.add_typer(group, name=name)
        else:
            app.command(name)(getattr(module, name))
    use_plain_help(app)
    return app


def main() -> None:
    """Run the console script: an expected error is one line and a non-zero exit code, never a traceback."""
    arguments = sys.argv[1:]
    if reason := old_options.objection(arguments):
        _fail(reason)
    try:
        application(arguments)(prog_name="kraft")
    except KraftError as error:
        _fail(str(error))
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        sys.exit(1)
    finally:
        _close_output()


def _print_version(is_asked: bool) -> None:
    if is_asked:
        print(f"kraft {__version__}")
        raise typer.Exit


def _kraft(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Run and operate Kraft, a message broker without ZooKeeper."""


def _fail(reason: str) -> NoReturn:
    # Output that was printed before the error has to appear before it.
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.flush()
    print(f"kraft: {reason}", file=sys.stderr)
    sys.exit(1)


def _close_output() -> None:
    """Flush the output. If its reader is gone, as `head` is, keep the interpreter from complaining at exit."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
