"""One snapshot answers all scrapers that ask while it is taken, and a loop that hangs is answered for."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from kraft.server.http.messages import Request
from kraft.server.metrics import scrapes as scrapes_module
from kraft.server.metrics.metric import gauge
from kraft.server.metrics.scrapes import Scrapes
from kraft.server.metrics.snapshot import Snapshot, Values

SIZE = gauge("kraft_size", "Size.")
OPEN = Request(path="/metrics", accept="application/openmetrics-text")
TEXT = Request(path="/metrics")


def _size(number: int) -> Values:
    snapshot = Snapshot()
    snapshot.add(SIZE, number)
    return snapshot.values


@pytest.fixture
def node_loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    yield loop
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def test_scrapers_that_ask_meanwhile_share_a_snapshot_and_later_ones_do_not(
    node_loop: asyncio.AbstractEventLoop,
) -> None:
    taken = 0

    async def take() -> Values:
        nonlocal taken
        taken += 1
        await asyncio.sleep(0.05)
        return _size(taken)

    async def scrape() -> None:
        scrapes = Scrapes(node_loop, take)
        bodies = await asyncio.gather(*(scrapes.answer(TEXT) for _ in range(100)))
        assert {body.body.splitlines()[-1] for body in bodies} == {b"kraft_size 1.0"}
        first, other = await asyncio.gather(scrapes.answer(TEXT), scrapes.answer(OPEN))
        assert first.body.endswith(b"kraft_size 2.0\n")
        assert other.body.endswith(b"kraft_size 3.0\n# EOF\n")
        assert other.content_type.startswith("application/openmetrics-text")

    asyncio.run(scrape())
    assert taken == 3


def test_one_scraper_that_gives_up_does_not_end_it_for_others(node_loop: asyncio.AbstractEventLoop) -> None:
    async def take() -> Values:
        await asyncio.sleep(0.05)
        return _size(1)

    async def scrape() -> None:
        scrapes = Scrapes(node_loop, take)
        impatient = asyncio.ensure_future(scrapes.answer(TEXT))
        await asyncio.sleep(0)
        patient = asyncio.ensure_future(scrapes.answer(TEXT))
        await asyncio.sleep(0)
        impatient.cancel()
        assert (await patient).body.endswith(b"kraft_size 1.0\n")

    asyncio.run(scrape())


def test_a_loop_that_hangs_is_answered_for(
    node_loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scrapes_module, "SNAPSHOT_S_MAX", 0.05)
    hanging = threading.Event()
    node_loop.call_soon_threadsafe(hanging.wait)

    async def take() -> Values:
        return {}

    async def scrape() -> None:
        scrapes = Scrapes(node_loop, take)
        answered = await scrapes.answer(TEXT)
        assert answered.status == 503
        assert answered.body == b"the node's event loop has not answered within 0.05 s\n"
        hanging.set()
        monkeypatch.setattr(scrapes_module, "SNAPSHOT_S_MAX", 20)
        assert (await scrapes.answer(TEXT)).status == 200

    asyncio.run(scrape())
