"""Metrics of the process and its event loop. Those of the process have the names of Prometheus' client libraries."""

from __future__ import annotations

import asyncio
import os
import threading
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
THREADS: Final = gauge("kraft_threads", "Threads of Python in the process.")
DISK_READ: Final = gauge(
    "kafka_server_kafkaserver_linux_disk_read_bytes",
    "Bytes that the process has had read from disks.",
    jmx="kafka.server:type=KafkaServer,name=linux-disk-read-bytes",
)
DISK_WRITTEN: Final = gauge(
    "kafka_server_kafkaserver_linux_disk_write_bytes",
    "Bytes that the process has had written to disks.",
    jmx="kafka.server:type=KafkaServer,name=linux-disk-write-bytes",
)
NETWORK_IDLE: Final = gauge(
    "kafka_network_socketserver_networkprocessoravgidle_percent",
    "Part of the last ten seconds in which the thread of the event loop was idle, from 0 to 1. It does what"
    " Kafka's network threads do, and what its request handlers do.",
    jmx="kafka.network:type=SocketServer,name=NetworkProcessorAvgIdlePercent",
)
HANDLER_IDLE: Final = gauge(
    "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent",
    "The same number: there is one thread for both.",
    jmx="kafka.server:type=KafkaRequestHandlerPool,name=RequestHandlerAvgIdlePercent",
)
LOOP_CPU: Final = counter("kraft_event_loop_cpu_seconds", "Processor time of the thread of the event loop.")
HOLDS: Final = counter("kraft_event_loop_holds", "Times that the event loop was held for 100 ms or longer.")
HELD: Final = counter("kraft_event_loop_held_seconds", "Time for which it was held on these occasions.")
LONGEST_HOLD: Final = gauge(
    "kraft_event_loop_longest_hold_seconds", "Longest hold of the event loop in this minute and the one before."
)

METRICS: Final[tuple[Metric, ...]] = (
    CPU_SECONDS,
    RESIDENT_BYTES,
    OPEN_FILES,
    OPEN_FILES_MAX,
    STARTED,
    THREADS,
    DISK_READ,
    DISK_WRITTEN,
    NETWORK_IDLE,
    HANDLER_IDLE,
    LOOP_CPU,
    HOLDS,
    HELD,
    LONGEST_HOLD,
)


async def collect(parts: NodeParts, snapshot: Snapshot) -> None:
    # Not made before: a node may be forked from a process that has imported this.
    process = psutil.Process()
    _collect_process(process, snapshot)
    # In a thread: a broker with 10,000 open logs has as many files, which takes 5 ms to count.
    snapshot.add(OPEN_FILES, await asyncio.to_thread(process.num_fds))
    loop = parts.loop
    snapshot.add(LOOP_CPU, loop.cpu_s)
    snapshot.add(HOLDS, loop.holds)
    snapshot.add(HELD, loop.held_s)
    snapshot.add(LONGEST_HOLD, loop.longest_s)
    if (idle := loop.idle_share) is not None:
        snapshot.add(NETWORK_IDLE, idle)
        snapshot.add(HANDLER_IDLE, idle)


def _collect_process(process: psutil.Process, snapshot: Snapshot) -> None:
    times = os.times()
    snapshot.add(CPU_SECONDS, times.user + times.system)
    with process.oneshot():
        snapshot.add(RESIDENT_BYTES, process.memory_info().rss)
        snapshot.add(STARTED, process.create_time())
    snapshot.add(OPEN_FILES_MAX, process.rlimit(psutil.RLIMIT_NOFILE)[0])
    snapshot.add(THREADS, threading.active_count())
    disk = process.io_counters()
    snapshot.add(DISK_READ, disk.read_bytes)
    snapshot.add(DISK_WRITTEN, disk.write_bytes)
