"""/healthz and /readyz: what an orchestrator asks to restart a node, or to send it no clients.

Both are answered in the listener's thread from the node's pulse alone, so that they say so when its event loop hangs.
"""

from __future__ import annotations

from http import HTTPStatus

from kraft.server.http.messages import Request, Response, Routes, line
from kraft.server.process.pulse import Pulse


def health_routes(pulse: Pulse) -> Routes:
    """Return both routes: 200, or 503 with the reason, in a line."""

    async def healthz(_: Request) -> Response:
        return _answer("alive: the event loop turns", "not alive", pulse.why_not_alive())

    async def readyz(_: Request) -> Response:
        return _answer("ready: in service", "not ready", pulse.why_not_ready())

    return {"/healthz": healthz, "/readyz": readyz}


def _answer(good: str, bad: str, reason: str | None) -> Response:
    return line(good) if reason is None else line(f"{bad}: {reason}", HTTPStatus.SERVICE_UNAVAILABLE)
