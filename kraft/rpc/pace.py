"""How fast the messages of one call are read: not at all while its client waits, as it used more than its quotas."""

from __future__ import annotations

from kraft.model.callbacks import AsyncCallback


class Pace:
    def __init__(self) -> None:
        self._wait: AsyncCallback | None = None

    def pause(self, wait: AsyncCallback) -> None:
        """Read the next message after this wait, which replaces an earlier one."""
        self._wait = wait

    @property
    def is_paused(self) -> bool:
        return self._wait is not None

    async def over(self) -> None:
        """Wait until the next message may be handled."""
        while (wait := self._wait) is not None:
            await wait()
            if self._wait is wait:
                self._wait = None
