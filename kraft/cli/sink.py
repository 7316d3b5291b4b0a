"""`kraft sink`: topics into the index of a search engine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from kraft.cli.command_security import properties_of
from kraft.cli.printing import say

_HELP: Final = "Configuration file: the topics, the engine and the index, as docs/log-pipeline.md says."

ConfigOption = Annotated[Path, typer.Option("--config", "-c", metavar="FILE", help=_HELP)]


def sink(config: ConfigOption) -> None:
    """Load records of topics into a search engine until Ctrl-C.

    The engine has the _bulk API of Elasticsearch and OpenSearch. Positions are committed once it has acknowledged.
    """
    from kraft.server.config.components import LoggingSettings
    from kraft.server.process import logging_setup
    from kraft.sink.config import InvalidSinkFile, sink_config
    from kraft.sink.running import run

    try:
        checked = sink_config(properties_of(config, "--config"))
    except InvalidSinkFile as error:
        for each in error.problems:
            say(f"kraft: {config}: {each}")
        raise typer.Exit(1) from None
    logging_setup.configure(LoggingSettings())
    run(checked, say)
