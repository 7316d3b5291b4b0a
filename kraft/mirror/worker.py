"""One worker of a mirror: all its pairs, until SIGTERM or Ctrl-C."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Sequence

import structlog

from kraft.mirror.config import MirrorConfig
from kraft.mirror.metrics import InvalidAddress, metrics_listener
from kraft.mirror.pairs import PairWorker
from kraft.mirror.throttle import Throttle
from kraft.model.errors import KraftError
from kraft.server.http.listener import why_not_bound

log = structlog.get_logger()


def run(config: MirrorConfig, worker: str) -> None:
    """Mirror all pairs of the file. Raises KraftError for what is wrong at the start."""
    asyncio.run(_run(config, worker))


async def _run(config: MirrorConfig, worker: str) -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    aliases = frozenset(each.alias for pair in config.pairs for each in (pair.source, pair.target))
    pairs = [PairWorker(config.name, pair, aliases, worker, Throttle(pair.throttle_bytes)) for pair in config.pairs]
    listener = metrics_listener(config.metrics_address, pairs)
    if listener is not None:
        try:
            await listener.start()
        except OSError as error:
            raise InvalidAddress(f"metrics.address={config.metrics_address}: {why_not_bound(error)}") from None
    try:
        await _all(pairs, stopped)
        log.info("mirror ended", records={each.pair.name: each.counts.records for each in pairs})
    finally:
        if listener is not None:
            await listener.stop()


async def _all(pairs: Sequence[PairWorker], stopped: asyncio.Event) -> None:
    """Run the pairs; the first that cannot begin ends the others, and is the error of all."""
    tasks = [asyncio.ensure_future(each.run(stopped)) for each in pairs]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    stopped.set()
    await asyncio.wait(tasks)
    failures = [each.exception() for each in tasks]
    for failure in failures:
        if isinstance(failure, KraftError):
            raise failure
    for failure in failures:
        if failure is not None:
            raise failure
