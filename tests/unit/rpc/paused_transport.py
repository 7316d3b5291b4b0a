"""A transport that a test reads for."""

from __future__ import annotations

import asyncio

from kraft.log.format.record_batch import Buffer
from kraft.rpc.frame_connection import FrameConnection


class PausedTransport(asyncio.Transport):
    """Drops what is written, and shows whether its connection reads."""

    def __init__(self) -> None:
        super().__init__()
        self.connection: FrameConnection
        self.is_paused = False

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        assert isinstance(protocol, FrameConnection)
        self.connection = protocol

    def write(self, data: Buffer) -> None:
        pass

    def pause_reading(self) -> None:
        assert not self.is_paused
        self.is_paused = True

    def resume_reading(self) -> None:
        assert self.is_paused
        self.is_paused = False

    def abort(self) -> None:
        pass
