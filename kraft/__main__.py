"""Run the `kraft` command: the console script, and `python -m kraft` for a path without the script."""

from __future__ import annotations

import signal


def main() -> None:
    """Import the command line, and run it. Ctrl-C during the import ends the process without a traceback."""
    interrupts = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if interrupts:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from kraft.cli import main as command_line

    if interrupts:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    command_line.main()


if __name__ == "__main__":
    main()
