from __future__ import annotations

from typing import cast

import pytest

from kraft.model.append_audit import AppendAuditRequest
from kraft.model.errors import ErrorCode, Refusal
from kraft.server.handlers.append_audit import AppendAuditHandler
from kraft.server.handlers.produce import ProduceHandler


async def test_a_request_without_lines_is_refused() -> None:
    """No broker sends one, and a batch without records cannot be made."""
    handler = AppendAuditHandler(cast(ProduceHandler, None), lambda: 0)
    with pytest.raises(Refusal) as refused:
        await handler.append(AppendAuditRequest(partition=0, records=[]))
    assert refused.value.error_code is ErrorCode.INVALID_REQUEST
