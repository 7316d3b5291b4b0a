"""Watch over a change that waits for the active controller: reports when there is none, and why."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from kraft.client.cluster.any_broker import is_transient
from kraft.client.model.errors import NoActiveController
from kraft.model.errors import Refusal
from kraft.rpc.peers import Unreachable

log = logging.getLogger("kraft.client")

Answer = TypeVar("Answer")

LOOK_AFTER_S: Final = 0.4
"""Time without an answer after which the quorum is described. That takes up to 1.4 s where no controller is active, and
the caller is told within 2 s."""


DescribeQuorum = Callable[[], Coroutine[Any, Any, object]]
"""Raises NoActiveController."""


async def watched(change: Coroutine[Any, Any, Answer], describe_quorum: DescribeQuorum, timeout_ms: int) -> Answer:
    """Return the answer of the change, which tries again until its timeout.

    While it waits, `describe_quorum` is called; the first NoActiveController that it raises is logged as a warning.
    Where the change is not answered in the end, and no controller was active, raises NoActiveController.
    """
    answer = asyncio.ensure_future(change)
    inactive: NoActiveController | None = None
    try:
        while not await _ends_within(answer, LOOK_AFTER_S):
            seen = await _inactive(describe_quorum, answer)
            if answer.done():
                break
            if seen is not None and inactive is None:
                log.warning("%s; trying again for up to %g s", seen.message, timeout_ms / 1_000)
            inactive = seen
        return answer.result()
    except (Unreachable, Refusal) as error:
        if inactive is None or (isinstance(error, Refusal) and not is_transient(error.error_code)):
            raise
        raise inactive from error
    finally:
        answer.cancel()
        await asyncio.wait([answer])


async def _ends_within(answer: asyncio.Future[Answer], wait_s: float) -> bool:
    await asyncio.wait([answer], timeout=wait_s)
    return answer.done()


async def _inactive(describe_quorum: DescribeQuorum, answer: asyncio.Future[Answer]) -> NoActiveController | None:
    """Describe the quorum while there is no answer; return the error if no controller is active, else None."""
    look: asyncio.Task[object] = asyncio.create_task(describe_quorum())
    try:
        tasks: set[asyncio.Future[Any]] = {look, answer}
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if look.done():
            look.result()
    except NoActiveController as error:
        return error
    except (Unreachable, Refusal):
        # The change itself reports what it could not reach.
        return None
    finally:
        look.cancel()
        await asyncio.wait([look])
    return None
