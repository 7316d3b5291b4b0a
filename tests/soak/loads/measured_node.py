"""The `kraft` command in a node that reports every hold of its loop from a millisecond on, and what it did meanwhile.

python -m tests.soak.loads.measured_node server start -c FILE
"""

from __future__ import annotations

import gc
import sys
import threading
import time
from collections import Counter
from types import FrameType

import structlog

from kraft.cli.main import main
from kraft.server.loop import watch

HELD_MS_MIN = 1.0
SAMPLE_S = 0.002
REPORT_INTERVAL_S = 0.0
WAITED_MS_MIN = 10.0
"""Shorter holds in which the loop only waited, for a processor or another thread, are not reported."""

PLACES_FROM_MS = 25.0
"""Shorter holds are reported without the places."""

LOOK_S = 0.004
"""Interval of the looks at what the loop does."""

FRAMES = 4
"""Frames of a place: the innermost of ours."""


class Collections:
    """Time that the garbage collector took in the loop's thread, which no look sees: it holds the interpreter."""

    def __init__(self) -> None:
        self._began_s = 0.0
        self._took_s = 0.0
        self._count = 0

    def take(self) -> list[str]:
        took_ms, count = self._took_s * 1_000, self._count
        self._took_s, self._count = 0.0, 0
        return [f"{took_ms:.1f} ms in {count} garbage collections"] if count else []

    def note(self, phase: str, _facts: dict[str, int]) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        if phase == "start":
            self._began_s = time.thread_time()
        else:
            self._took_s += time.thread_time() - self._began_s
            self._count += 1


class Places:
    """Where the loop's thread was, at each look since the last report."""

    def __init__(self) -> None:
        self._seen: Counter[str] = Counter()

    def take(self) -> list[str]:
        seen, self._seen = self._seen, Counter()
        return [f"{count}x {place}" for place, count in seen.most_common(3)]

    def look_on(self, thread_id: int) -> None:
        while True:
            time.sleep(LOOK_S)
            frame = sys._current_frames().get(thread_id)
            if frame is not None:
                self._seen[_place(frame)] += 1


def _place(frame: FrameType | None) -> str:
    """Return the innermost functions of this project in a stack."""
    found: list[str] = []
    while frame is not None and len(found) < FRAMES:
        module = frame.f_globals.get("__name__", "")
        if module.startswith("kraft.") or not found:
            found.append(f"{module.removeprefix('kraft.')}:{frame.f_code.co_name}:{frame.f_lineno}")
        frame = frame.f_back
    return " < ".join(found)


def _report(places: Places, collections: Collections) -> None:
    """Have each hold logged, with the places of a long one."""
    shipped = watch._log

    def log(hold: watch.LoopHold) -> None:
        seen = [*collections.take(), *places.take()]
        if hold.loop_cpu_ms >= PLACES_FROM_MS:
            structlog.get_logger().info("event loop places", places=seen)
        if hold.loop_cpu_ms >= HELD_MS_MIN or hold.held_ms >= WAITED_MS_MIN:
            shipped(hold)

    # Final for the node that ships; this one reports far shorter holds.
    vars(watch).update(HELD_MS_MIN=HELD_MS_MIN, SAMPLE_S=SAMPLE_S, REPORT_INTERVAL_S=REPORT_INTERVAL_S, _log=log)


if __name__ == "__main__":
    _places, _collections = Places(), Collections()
    gc.callbacks.append(_collections.note)
    _report(_places, _collections)
    threading.Thread(target=_places.look_on, args=(threading.main_thread().ident,), daemon=True).start()
    main()
