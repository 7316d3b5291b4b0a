"""`kraft kafka-names`: Kafka's scripts by their names, as commands of Kraft."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from kraft.cli.kafka_classes import RUN_CLASS
from kraft.cli.kafka_scripts import SCRIPTS
from kraft.cli.printing import fail

_MODE: Final = 0o755
_MARK: Final = "# Written by kraft kafka-names."
_ANSWERED: Final = ("zookeeper-server-start", "zookeeper-server-stop")
"""Scripts with which guides begin, and which say that they are not needed."""


def kafka_names(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Directory for the commands, on your PATH.")],
) -> None:
    """Write commands with the names of Kafka's scripts.

    They take Kafka's options and addresses of Kafka's listeners: kafka-topics and kafka-topics.sh are 'kraft
    kafka-topics'. Nothing is overwritten but what this command has written.
    """
    call = f"exec {shlex.quote(sys.executable)} -m kraft"
    names = sorted([*SCRIPTS, RUN_CLASS, *_ANSWERED])
    paths = {directory / f"{name}{suffix}": name for name in names for suffix in ("", ".sh")}
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for path in paths:
            if path.exists() and _MARK not in path.read_text(errors="replace"):
                fail(f"{path} is not of this command: name another directory; nothing was written")
        for path, name in paths.items():
            path.write_text(f'#!/bin/sh\n{_MARK}\n{call} {name} "$@"\n')
            path.chmod(_MODE)
    except OSError as error:
        fail(f"{directory} cannot be written: {error.strerror}")
    print(f"{directory}: {len(names)} commands of Kafka's names, with and without .sh")
