from __future__ import annotations

import os
import time

from benchmarks.cpu_clock import process_cpu_s


def test_it_is_the_clock_of_the_whole_process() -> None:
    before_s = time.process_time()
    assert before_s <= process_cpu_s(os.getpid()) <= time.process_time()
    assert process_cpu_s(os.getppid()) > 0
