"""The `kraft` command. Each subcommand is a module of its own, loaded only when it is called."""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Annotated, Any, Final, NoReturn

import typer

from kraft import __version__
from kraft.cli import old_options
from kraft.cli.foreground import INTERRUPTED, Terminated
from kraft.cli.plain_help import PlainCommand, each_command
from kraft.model.errors import KraftError, not_unicode
from kraft.model.printable import printable_lines

COMMANDS: Final = {
    "dev": ("kraft.cli.dev", "Run a cluster on this machine until Ctrl-C."),
    "demo": ("kraft.cli.demo", "Send real flights through three nodes into a Spark query."),
    "produce": ("kraft.cli.produce", "Send each line of standard input as a record."),
    "consume": ("kraft.cli.consume", "Print the records of a topic until Ctrl-C."),
    "storage": ("kraft.cli.storage", "Format the log directories of nodes."),
    "security": ("kraft.cli.security", "Make the certificates and the administrator of a cluster."),
    "server": ("kraft.cli.server", "Start and stop nodes."),
    "console": ("kraft.cli.console", "Serve the web console until Ctrl-C."),
    "sink": ("kraft.cli.sink", "Load records of topics into a search engine until Ctrl-C."),
    "mirror": ("kraft.cli.mirror", "Copy topics from cluster to cluster, and show how far it is."),
    "health": ("kraft.cli.health", "Show in one line whether the cluster is healthy."),
    "cluster": ("kraft.cli.cluster.commands", "Show what is wrong with the cluster."),
    "topics": ("kraft.cli.topics.commands", "Create, list, describe, change, move and delete topics."),
    "configs": ("kraft.cli.configs", "Describe and alter configs and client quotas."),
    "quotas": ("kraft.cli.client_quotas", "Describe and alter client quotas."),
    "brokers": ("kraft.cli.brokers", "List brokers, fence them, and remove them from the cluster."),
    "api-versions": ("kraft.cli.api_versions", "Show the versions of Kafka's APIs that each broker serves."),
    "clients": ("kraft.cli.clients", "Show who is connected, and how much each asks and gets."),
    "users": ("kraft.cli.users", "List users, set their passwords, and delete users."),
    "acls": ("kraft.cli.acls.commands", "List, create and delete ACLs; check who may do what."),
    "quorum": ("kraft.cli.quorum", "Describe the metadata quorum."),
    "metadata": ("kraft.cli.metadata", "Read the files of the metadata log."),
    "features": ("kraft.cli.features", "Describe and upgrade the feature levels of the cluster."),
    "groups": ("kraft.cli.groups.commands", "List, describe and delete groups, and reset their offsets."),
    "transactions": ("kraft.cli.transactions.commands", "Show transactions and producers; end hanging ones."),
    "verify": ("kraft.cli.verify", "Clients that print each result as JSON."),
    "replicas": ("kraft.cli.replicas", "Compare the replicas of partitions."),
    "kafka-names": ("kraft.cli.kafka_names", "Write commands with the names of Kafka's scripts."),
    "perf": ("kraft.cli.perf.commands", "Measure how fast records are stored and read."),
    "log": ("kraft.cli.log", "Print and check the files of partitions."),
}
"""Modules by command, and the command's line in the list of all: a group has a typer `app`, a single command a function
of its name, with underscores."""

TERMINATED: Final = 143
"""Exit code of a command that SIGTERM ended, as shells have it."""

LONG_WAIT_S: Final = 1.0
"""A command that failed after less time did not wait for an answer."""


def application(arguments: list[str]) -> typer.Typer:
    """Return the command line; if the arguments call a command, only that command is loaded."""
    # Imported late, because the list of commands does without.
    from kraft.cli.command_security import with_command_config

    app = _without_commands()
    called = [name for name in arguments[:1] if name in COMMANDS]
    for name in called or COMMANDS:
        module = importlib.import_module(COMMANDS[name][0])
        group = getattr(module, "app", None)
        if isinstance(group, typer.Typer):
            app.add_typer(group, name=name)
        else:
            app.command(name)(getattr(module, name.replace("-", "_")))
    for command in each_command(app):
        command.cls = _DiagnosedCommand
        if command.callback is not None:
            command.callback = with_command_config(command.callback)
    return app


class _DiagnosedCommand(PlainCommand):
    """A command that, where it got no answer in time, notes beside its error what is wrong with the cluster."""

    def invoke(self, ctx: Any) -> Any:
        began = time.monotonic()
        try:
            return super().invoke(ctx)
        except KraftError as error:
            bootstrap_server = ctx.params.get("bootstrap_server")
            if bootstrap_server and time.monotonic() - began >= LONG_WAIT_S:
                from kraft.cli.cluster.beside_error import told_beside

                for line in told_beside(error, bootstrap_server):
                    error.add_note(line)
            for line in (*_where_to_set(error, ctx), *_how_to_allow(error, ctx)):
                error.add_note(line)
            raise


def _where_to_set(error: KraftError, ctx: Any) -> Iterator[str]:
    """Yield where the settings go that the error names, unless the command has some."""
    from kraft.cli.command_security import OPTION
    from kraft.client.model.errors import AuthenticationFailed

    if isinstance(error, AuthenticationFailed) and error.lacks_settings:
        settings = "Settings of security, such as security.protocol, go into"
        if "bootstrap_server" in ctx.params:
            yield f"{settings} a file: give it as {OPTION} FILE"
        elif file := ctx.params.get("config"):
            yield f"{settings} {file}"


def _how_to_allow(error: KraftError, ctx: Any) -> Iterator[str]:
    """Yield the command that grants the permission, if it is one that is missing."""
    from kraft.cli.acls.remedy import remedy

    if command := remedy(str(error), ctx.info_name, ctx.params.get("group")):
        yield f"An administrator allows it, unless an ACL denies it, with: {command}"


def listing() -> typer.Typer:
    """Return a command line that can only list its commands: loading them takes half of the time."""
    app = _without_commands()
    for name, (_, summary) in COMMANDS.items():
        app.command(name, help=summary)(_listed)
    return app


def _listed() -> None:
    """Stand for a command in the list."""


def _without_commands() -> typer.Typer:
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
    return app


def main() -> None:
    """Run the console script: an expected error is one line and a non-zero exit code, never a traceback."""
    arguments = _in_words_of_kraft(sys.argv[1:])
    if reason := old_options.objection(arguments, COMMANDS):
        _fail(reason)
    termination = _Termination()
    before = signal.signal(signal.SIGTERM, termination)
    try:
        (listing() if _names_no_command(arguments) else application(arguments))(args=arguments, prog_name="kraft")
    except KraftError as error:
        _fail(str(error), getattr(error, "__notes__", ()))
    except UnicodeEncodeError as error:
        if error.encoding != "utf-8":
            raise
        _fail(str(not_unicode(error)))
    except KeyboardInterrupt:
        sys.exit(TERMINATED if termination.has_come else INTERRUPTED)
    except SystemExit:
        # The parser of the command line makes one of a KeyboardInterrupt.
        if termination.has_come:
            sys.exit(TERMINATED)
        raise
    except BrokenPipeError:
        sys.exit(1)
    finally:
        signal.signal(signal.SIGTERM, before)
        _close_output()


def _names_no_command(arguments: Sequence[str]) -> bool:
    """Return whether the commands, or the version, are all that can be asked for: no command has to be loaded."""
    return not any(each in COMMANDS for each in arguments)


def _in_words_of_kraft(arguments: list[str]) -> list[str]:
    """Return the arguments, or, if they are those of a script of Kafka, what it is here."""
    if not arguments or not arguments[0].startswith(("kafka-", "connect-")):
        return arguments
    from kraft.cli import kafka_classes, kafka_scripts
    from kraft.cli.command_security import set_default_wire_protocol
    from kraft.cli.options import BOOTSTRAP_VARIABLE

    try:
        if arguments[0].removesuffix(".sh") == kafka_classes.RUN_CLASS:
            arguments = kafka_classes.line_of_script(arguments)
        if kafka_scripts.script_of(arguments) is None:
            return arguments
        found = kafka_scripts.translated(arguments, os.environ.get(BOOTSTRAP_VARIABLE))
    except KraftError as error:
        _fail(str(error))
    # Addresses in the environment are of GRPC listeners; those that Kafka's scripts are given are not.
    names_servers = any(each in found for each in kafka_scripts.SERVER_OPTIONS)
    set_default_wire_protocol("kafka" if names_servers else None)
    return found


class _Termination:
    """Handler of SIGTERM: a command ends as by Ctrl-C, so that a consumer leaves its group."""

    def __init__(self) -> None:
        self.has_come = False

    def __call__(self, number: int, frame: FrameType | None) -> NoReturn:
        self.has_come = True
        raise Terminated


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


def _fail(reason: str, notes: Sequence[str] = ()) -> NoReturn:
    # Output that was printed before the error has to appear before it.
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.flush()
    for line in (reason, *notes):
        print(f"kraft: {printable_lines(line)}", file=sys.stderr)
    sys.exit(1)


def _close_output() -> None:
    """Flush the output. If its reader is gone, as `head` is, keep the interpreter from complaining at exit."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
