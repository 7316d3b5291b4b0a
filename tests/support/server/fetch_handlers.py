"""The handler of fetches as on a broker."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from kraft.server.handlers.fetch import WAITING_BYTES_MAX, FetchHandler
from kraft.server.loop.slow_reads import SlowReads
from kraft.server.replica.partitions import Partitions


def fetch_handler(
    partitions: Partitions, waiting_bytes_max: int = WAITING_BYTES_MAX, slow_reads: SlowReads | None = None
) -> FetchHandler:
    return FetchHandler(partitions, slow_reads or SlowReads(ThreadPoolExecutor(1)), waiting_bytes_max)
