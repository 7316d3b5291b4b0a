"""A small HTTP server that speaks what Confluent's schema registry documents of its API: no registry is at hand.

Source: "Schema Registry API Reference": GET /schemas/ids/{id} and GET /subjects/{subject}/versions/{version}, each with
`format=serialized`; errors have `error_code` and `message`.
"""

from __future__ import annotations

import base64
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit


class SchemaRegistry:
    """Schemas by id and by subject and version; each request is noted."""

    def __init__(self, port: int, scheme: str) -> None:
        self.url = f"{scheme}://localhost:{port}"
        self.asked: list[str] = []
        self.by_path: dict[str, dict[str, Any]] = {}
        self.serialized: dict[str, bytes] = {}
        """Compiled files of Protobuf."""

        self.user_info = ""
        self.redirect_to = ""

    def add(
        self,
        schema_id: int,
        schema: str,
        kind: str = "AVRO",
        subject: str = "",
        references: list[dict[str, Any]] | None = None,
        compiled: bytes | None = None,
    ) -> None:
        answer: dict[str, Any] = {"schema": schema}
        if kind != "AVRO":
            answer["schemaType"] = kind
        if references:
            answer["references"] = references
        for path in (f"/schemas/ids/{schema_id}", f"/subjects/{subject}/versions/1"):
            self.by_path[path] = answer
            if compiled is not None:
                self.serialized[path] = compiled

    def answer(self, path: str, login: str | None) -> tuple[int, dict[str, str], bytes]:
        self.asked.append(path)
        parts = urlsplit(path)
        where, query = unquote(parts.path), parse_qs(parts.query)
        headers = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
        if self.redirect_to:
            return 302, {**headers, "Location": self.redirect_to}, b""
        if self.user_info and login != f"Basic {base64.b64encode(self.user_info.encode()).decode()}":
            return 401, headers, b'{"error_code":401,"message":"Unauthorized"}'
        if where not in self.by_path:
            return 404, headers, b'{"error_code":40403,"message":"Schema not found"}'
        found = dict(self.by_path[where])
        if query.get("format") == ["serialized"] and where in self.serialized:
            found["schema"] = base64.b64encode(self.serialized[where]).decode()
        return 200, headers, json.dumps(found).encode()


@contextmanager
def schema_registry(context: ssl.SSLContext | None = None) -> Iterator[SchemaRegistry]:
    """Serve on loopback."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, headers, body = registry.answer(self.path, self.headers.get("Authorization"))
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("localhost", 0), Handler) as server:
        if context is not None:
            server.socket = context.wrap_socket(server.socket, server_side=True)
        registry = SchemaRegistry(server.server_address[1], "http" if context is None else "https")
        serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        serving.start()
        try:
            yield registry
        finally:
            server.shutdown()
            serving.join()
