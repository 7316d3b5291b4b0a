"""The error with which a peer ended a stream; gRPC alone does not always give it to a task that writes."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import grpc
import grpc.aio

STATUS_WAIT_S: Final = 1.0
"""How long a failed write waits for the peer's status before it counts as gRPC's own error."""


class _StatusFirst:
    """Call of gRPC's core that prefers the peer's status to an internal error.

    A write fails when the peer has ended the stream. gRPC then sets the status INTERNAL, for readers too, and drops the
    peer's status, which arrives a moment later.
    """

    def __init__(self, core_call: Any) -> None:
        self._core_call = core_call

    def __getattr__(self, name: str) -> Any:
        return getattr(self._core_call, name)

    def set_internal_error(self, reason: str) -> None:
        asyncio.get_running_loop().call_later(STATUS_WAIT_S, self._fail, reason)

    def _fail(self, reason: str) -> None:
        if not self._core_call.done():
            self._core_call.set_internal_error(reason)


def with_status_first(call: Any) -> Any:
    """Return the stream, changed so that a write that fails because the peer ended the stream raises its status."""
    core_call = getattr(call, "_cython_call", None)
    if core_call is not None:
        call._cython_call = _StatusFirst(core_call)
    return call


async def peers_error(call: Any, error: Exception) -> Exception:
    """Return the error with the status of a call that has ended: gRPC gives none to a write that comes later."""
    if isinstance(error, grpc.aio.AioRpcError) or not call.done():
        return error
    code = await call.code()
    if code is grpc.StatusCode.OK:
        return error
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(), details=await call.details())
