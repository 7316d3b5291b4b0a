"""An authorization server's endpoint for clients that fetch their tokens (RFC 6749, 4.4), on loopback."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

_END_DEADLINE_S: Final = 30.0


@contextmanager
def token_endpoint(token: Callable[[], str]) -> Iterator[str]:
    """Serve tokens to whoever asks, while the block runs, at the URL."""

    class Endpoint(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            answer = json.dumps({"access_token": token(), "token_type": "bearer", "expires_in": 3_600}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Endpoint) as server:
        thread = threading.Thread(target=server.serve_forever, name="token endpoint")
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/token"
        finally:
            server.shutdown()
            thread.join(_END_DEADLINE_S)
