"""How fast the messages of one call are read: not at all while its client waits, as it used more than its quotas, or
while a message of it is not begun yet.
"""

from __future__ import annotations

import asyncio

from kraft.model.callbacks import AsyncCallback


class Pace:
    def __init__(self) -> None:
        self._wait: AsyncCallback | None = None
        self._begun: asyncio.Future[None] | None = None

    def pause(self, wait: AsyncCallback) -> None:
        """Read the next message after this wait, which replaces an earlier one."""
        self._wait = wait

    def begin_next_after(self, begun: asyncio.Future[None]) -> None:
        """Read the next message once this one is begun, which must not be overtaken."""
        self._begun = begun

    @property
    def is_paused(self) -> bool:
        return self._wait is not None or self._begun is not None

    async def over(self) -> None:
        """Wait until the next message may be handled."""
        while (wait := self._wait) is not None:
            await wait()
            if self._wait is wait:
                self._wait = None
        if self._begun is not None:
            await asyncio.shield(self._begun)
            self._begun = None
