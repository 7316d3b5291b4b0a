"""`kraft log`: print and check the files of a partition, with or without a running node.

`command` parses the arguments. `dump` reads a file and passes its content to a `Printer`: `kafka_lines` for people or
`json_lines` for programs. `verify` prints the findings of `kraft.log.integrity`.
"""

from __future__ import annotations

from kraft.cli.log.command import app

__all__ = ["app"]
