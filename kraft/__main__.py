"""Run the `kraft` command: the console script, and `python -m kraft` for a path without the script."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Sequence
from functools import partial


def main() -> None:
    """Import the command, and run it. Ctrl-C during the import ends the process without a traceback."""
    interrupts = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if interrupts:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    command = _command(sys.argv[1:])
    if interrupts:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.exit(command())


def _command(arguments: Sequence[str]) -> Callable[[], int | None]:
    from kraft.cli import foreground

    start = foreground.start_of(arguments)
    if start is not None:
        return partial(foreground.main, start)
    from kraft.cli import main as command_line

    return command_line.main


if __name__ == "__main__":
    main()
