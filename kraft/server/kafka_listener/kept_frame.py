"""The copy of a Produce request that takes several turns of the event loop, since the receive buffer is reused."""

from __future__ import annotations

from kraft.model.callbacks import Callback


class KeptFrame:
    """A copy, held until all records in it are appended or copied again."""

    def __init__(self, data: bytes, released: Callback) -> None:
        """`released` is called once the copy is held no more."""
        self.data = data
        self._released: Callback | None = released

    def release(self) -> None:
        """Hold it no more. Does nothing if it was released before."""
        released, self._released, self.data = self._released, None, b""
        if released is not None:
            released()
