"""Coordinators, as brokers of the fake cluster name them."""

from __future__ import annotations

from kraft.model.errors import ErrorCode
from kraft.model.request_context import RequestContext
from kraft.wire.schema.find_coordinator import Coordinator


def found(key: str, broker_id: int, host: str, port: int = 9094) -> Coordinator:
    return Coordinator(key=key, node_id=broker_id, host=host, port=port, error_code=ErrorCode.NONE, error_message="")


def client(version: int) -> RequestContext:
    """Return the context of a request from a client beside the coordinator."""
    return RequestContext(version=version, client_id="tester", peer="127.0.0.1:1")
