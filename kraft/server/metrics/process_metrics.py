"""Metrics of the process, under the names that Prometheus' client libraries give them."""

from __future__ import annotations

import os
from typing import Final

import psutil

from kraft.server.metrics.metric import Metric, counter, gauge
from kraft.server.metrics.node_parts import NodeParts
from kraft.server.metrics.snapshot import Snapshot

CPU_SECONDS: Final = counter("process_cpu_seconds", "Processor time of the process, in user and system mode.")
RESIDENT_BYTES: Final = gauge("process_resident_memory_bytes", "Memory of the process that is in use (RSS).")
OPEN_FILES: Final = gauge("process_open_fds", "Files and sockets that the process has open.")
OPEN_FILES_MAX: Final = gauge("process_max_fds", "Files and sockets that the process may have open.")
STARTED: Final = gauge("process_start_time_seconds", "When the process began, in seconds since 1970.")

METRICS: Final[tuple[Metric, ...]] = (CPU_SECONDS, RESIDENT_BYTES, OPEN_FILES, OPEN_FILES_MAX, STARTED)

_PROCESS: Final = psutil.Process()


async def collect(_: NodeParts, snapshot: Snapshot) -> None:
    times = os.times()
    snapshot.add(CPU_SECONDS, times.user + times.system)
    with _PROCESS.oneshot():
        snapshot.add(RESIDENT_BYTES, _PROCESS.memory_info().rss)
        snapshot.add(STARTED, _PROCESS.create_time())
    snapshot.add(OPEN_FILES, _PROCESS.num_fds())
    snapshot.add(OPEN_FILES_MAX, _PROCESS.rlimit(psutil.RLIMIT_NOFILE)[0])
