from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from kraft.server.kafka_listener import requests
from kraft.server.kafka_listener.apis import fetch


@pytest.fixture(params=[False, True], ids=["at once", "in turns"], autouse=True)
def is_long(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Have all requests answered as if they named thousands of topics, too: the answers are the same.

    What threads do then is done at once, since virtual time does not wait for them.
    """
    if request.param:
        monkeypatch.setattr(requests, "DECODED_ON_LOOP_MAX", 0)
        monkeypatch.setattr(fetch, "PARTITIONS_AT_ONCE", 1)
        monkeypatch.setattr(asyncio, "to_thread", _at_once)
    return bool(request.param)


async def _at_once(work: Callable[..., Any], *arguments: Any) -> Any:
    await asyncio.sleep(0)
    return work(*arguments)
