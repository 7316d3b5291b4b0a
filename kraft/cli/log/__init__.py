"""`kraft log`: look into the files of a partition, and check them. No node is needed, and none is disturbed.

`command` reads the arguments; `dump` walks a file and tells a `Printer` what it finds, of which there are two:
`kafka_lines` for people and `json_lines` for programs; `verify` prints what `kraft.log.verification` finds.
"""

from __future__ import annotations

from kraft.cli.log.command import app

__all__ = ["app"]
