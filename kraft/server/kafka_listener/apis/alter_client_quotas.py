"""AlterClientQuotas: set how much a user, client id or address may send and fetch (KIP-546)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from kraft.model import client_quotas as values
from kraft.model.errors import ErrorCode, Refusal
from kraft.server.kafka_listener.apis.timeouts import DEFAULT_TIMEOUT_MS
from kraft.server.kafka_listener.requests import RequestContext
from kraft.wire.schema.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntryData,
    EntryResult,
)

Handle = Callable[[values.AlterClientQuotasRequest], Awaitable[values.AlterClientQuotasResponse]]


class AlterClientQuotasApi:
    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    async def __call__(self, request: AlterClientQuotasRequest, call: RequestContext) -> AlterClientQuotasResponse:
        """Alter one entity after the other; each has its own result, and a refused one does not stop the others.

        After a timeout the remaining entities get the same error: the client has waited long enough.
        """
        results: list[EntryResult] = []
        late: Refusal | None = None
        for entry in request.entries:
            try:
                if late is not None:
                    raise late
                await self._alter(entry, request.validate_only)
            except Refusal as refusal:
                late = refusal if refusal.error_code is ErrorCode.REQUEST_TIMED_OUT else None
                results.append(_result(entry, refusal.error_code, refusal.message))
            else:
                results.append(_result(entry, ErrorCode.NONE, None))
        return AlterClientQuotasResponse(entries=tuple(results))

    async def _alter(self, entry: EntryData, validate_only: bool) -> None:
        """Alter the quotas of one entity. Raises Refusal."""
        alteration = values.QuotaAlteration(
            entity=[values.QuotaEntity(entity_type=part.entity_type, name=part.entity_name) for part in entry.entity],
            operations=[
                values.QuotaOperation(key=each.key, value=None if each.remove else each.value) for each in entry.ops
            ],
        )
        await self._handle(
            values.AlterClientQuotasRequest(
                alterations=[alteration], timeout_ms=DEFAULT_TIMEOUT_MS, validate_only=validate_only
            )
        )


def _result(entry: EntryData, code: ErrorCode, message: str | None) -> EntryResult:
    return EntryResult(error_code=code, error_message=message, entity=entry.entity)
