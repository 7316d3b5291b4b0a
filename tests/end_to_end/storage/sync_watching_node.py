"""`python -m tests.end_to_end.storage.sync_watching_node`: `kraft` that records the disk's work on the loop.

Each sync is a line of a file in the directory SYNCS_ON_LOOP: what was synced, and where in the code. Each open of a
file or directory is a line of another file: where in the code.
"""

from __future__ import annotations

import asyncio
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kraft.runtime.spare_files import Opened, SpareFiles

VARIABLE = "SYNCS_ON_LOOP"


def _watched(sync: Callable[[Any], None], notes: Path, counts: Path) -> Callable[[Any], None]:
    def noting(descriptor: Any) -> None:
        number = descriptor if isinstance(descriptor, int) else descriptor.fileno()
        on_loop = asyncio._get_running_loop() is not None
        with (notes if on_loop else counts).open("a") as file:
            file.write(f"{os.readlink(f'/proc/self/fd/{number}')} {_where()}\n")
        sync(descriptor)

    return noting


def _where() -> str:
    # Without the text of its lines, for which each file of the stack would be looked at.
    stack = [frame.f_code for frame, _ in traceback.walk_stack(sys._getframe())]
    where = [f"{Path(code.co_filename).stem}.{code.co_name}" for code in stack if "/kraft/" in code.co_filename]
    return " > ".join(reversed(where))


def _watch_opens(notes: Path) -> None:
    opening = SpareFiles.opening

    def noting(spare: SpareFiles, opens: Callable[[], Opened]) -> Opened:
        if asyncio._get_running_loop() is not None:
            with notes.open("a") as file:
                file.write(f"{_where()}\n")
        return opening(spare, opens)

    setattr(SpareFiles, "opening", noting)  # noqa: B010  Its type variable cannot be assigned to.


def watch(directory: Path) -> None:
    notes, counts = directory / f"{os.getpid()}.on-loop", directory / f"{os.getpid()}.elsewhere"
    for name in ("fsync", "fdatasync"):
        setattr(os, name, _watched(getattr(os, name), notes, counts))


def main() -> None:
    directory = Path(os.environ[VARIABLE])
    watch(directory)
    _watch_opens(directory / f"{os.getpid()}.opened-on-loop")
    from kraft.cli.main import main as kraft

    kraft()


if __name__ == "__main__":
    main()
