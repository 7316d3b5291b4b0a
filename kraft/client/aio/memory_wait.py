"""Waits for buffer memory of records that were sent together."""

from __future__ import annotations

from kraft.client.aio.sender import Sender
from kraft.client.model.errors import BufferExhausted


class MemoryWait:
    """One wait for all of the records: once it has timed out, the others that need memory fail without a wait.

    Otherwise each batch would wait as long as the first, and the records behind them as long as they all together.
    """

    def __init__(self) -> None:
        self._failure: BufferExhausted | None = None

    async def until_free(self, sender: Sender, size_bytes: int) -> None:
        """Wait until there is memory for records of this size. Raises BufferExhausted."""
        if not sender.is_short_of(size_bytes):
            return
        if self._failure is not None:
            raise self._failure.with_traceback(None)
        try:
            await sender.memory_for(size_bytes)
        except BufferExhausted as error:
            self._failure = error
            raise
