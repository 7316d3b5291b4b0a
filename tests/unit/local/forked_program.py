"""What the tests of the fork server run: it prints facts about itself, and does what its arguments say."""

from __future__ import annotations

import atexit
import gc
import json
import os
import sys
import threading
import time
from functools import partial

PRELOAD = "sched:scheduler"
"""A module that nothing else here imports, and a function of it that can be called."""


def _main() -> None:
    facts = {
        "is_preloaded": PRELOAD.partition(":")[0] in sys.modules,
        "arguments": sys.argv[1:],
        "session": os.getsid(0),
        "pid": os.getpid(),
        "variable": os.environ.get("OF_THE_LAUNCHER"),
        "variables": sorted(os.environ),
        "input": sys.stdin.read(),
        "is_garbage_sought_in_imports": gc.get_freeze_count() == 0,
        "passed": os.read(int(os.environ["PASSED"]), 100).decode(),
        "descriptors": sorted(int(each) for each in os.listdir("/proc/self/fd")),
    }
    print(json.dumps(facts), flush=True)
    print("an error", file=sys.stderr, flush=True)
    if sys.argv[1] == "sleep":
        time.sleep(60)
    if sys.argv[1] == "end":
        _end(sys.argv[2])
    else:
        sys.exit(3)


def _end(how: str) -> None:
    """End the process with something left to do."""
    atexit.register(partial(print, "the callback is called"))
    threading.Thread(target=_print_late).start()
    match how:
        case "return":
            return
        case "exit without a code":
            sys.exit()
        case "exit with words":
            sys.exit("words")
        case "error":
            raise ValueError(how)
        case _:
            sys.exit(int(how))


def _print_late() -> None:
    time.sleep(0.1)
    print("the thread has ended")


if __name__ == "__main__":
    _main()
