"""A node whose event loop can be made to hang: `python -m MODULE FILE`, which SIGUSR1 holds up for `HANG_S`."""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Final

from kraft.cli.foreground import run

HANG_S: Final = 7.0


def hang(_number: int, _frame: FrameType | None) -> None:
    # Python calls it in the main thread, which is that of the loop; other threads go on.
    time.sleep(HANG_S)


if __name__ == "__main__":
    signal.signal(signal.SIGUSR1, hang)
    sys.exit(run(Path(sys.argv[1])))
