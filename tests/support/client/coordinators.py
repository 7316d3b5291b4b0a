"""Coordinators, as brokers of the fake cluster name them."""

from __future__ import annotations

from kraft.model.errors import ErrorCode
from kraft.wire.schema.find_coordinator import Coordinator


def found(key: str, broker_id: int, host: str, port: int = 9094) -> Coordinator:
    return Coordinator(key=key, node_id=broker_id, host=host, port=port, error_code=ErrorCode.NONE, error_message="")
