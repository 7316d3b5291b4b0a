"""CPU time of other processes."""

from __future__ import annotations

import time


def process_cpu_s(pid: int) -> float:
    """Return the CPU time of a process, of all its threads, in the kernel and outside of it. Raises OSError."""
    # The kernel's number for the clock of a process: to the nanosecond, where /proc counts hundredths.
    return time.clock_gettime((~pid << 3) | 2)
