"""The order of a transactional producer's requests over gRPC while some of them wait to be verified.

The next request of a stream does not wait for this one. It may need no verification, since its partitions have records
of the transaction already, and so it would be appended before records of this one for the same partitions, which wait
because others of its partitions are new to the transaction.
"""

from __future__ import annotations

import asyncio


class ProduceOrder:
    """Producers of which a request waits. False if there is none, so that asking is cheap."""

    def __init__(self) -> None:
        self._last: dict[str, Turn] = {}
        """By transactional id, the request that came last."""

    def __bool__(self) -> bool:
        return bool(self._last)

    def __contains__(self, transactional_id: str) -> bool:
        return transactional_id in self._last

    def join(self, transactional_id: str) -> Turn:
        """Return the turn of a request, behind those that wait."""
        turn = self._last[transactional_id] = Turn(self, transactional_id, self._last.get(transactional_id))
        return turn

    def ended(self, turn: Turn) -> None:
        if self._last.get(turn.transactional_id) is turn:
            del self._last[turn.transactional_id]


class Turn:
    """When a request may be appended."""

    def __init__(self, order: ProduceOrder, transactional_id: str, before: Turn | None) -> None:
        self.transactional_id = transactional_id
        self._order = order
        self._before = None if before is None else before._over
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def comes(self) -> None:
        """Wait until what came before has been appended, or refused. It ends, as each verification does."""
        if self._before is not None:
            await asyncio.wait([self._before])

    def over(self, _: object = None) -> None:
        """The request has been appended, or refused, or is given up; may be called again."""
        if self._before is not None and not self._before.done():
            # What comes later waits for what came before, all the same.
            self._before.add_done_callback(self.over)
            return
        if not self._over.done():
            self._over.set_result(None)
        self._order.ended(self)
