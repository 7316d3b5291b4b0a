"""Default quotas that the file names, as older versions of Kafka had them: they become quotas of the metadata.

Once the default of client ids has a value there, the file says nothing: one that was changed since is not set back.
"""

from __future__ import annotations

import asyncio
from typing import Final

import structlog

from kraft.metadata.quota_decisions import CLIENT_ID, CONSUMER_BYTE_RATE, PRODUCER_BYTE_RATE
from kraft.metadata.records import QuotaEntity
from kraft.model.config_types import INT64_MAX
from kraft.model.errors import ErrorCode, Refusal
from kraft.rpc.calls import ALTER_CLIENT_QUOTAS
from kraft.server.config.connection_settings import DefaultQuotas
from kraft.server.handlers import client_quotas
from kraft.server.handlers.forwarding import Forwarder
from kraft.wire.schema.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData

log = structlog.get_logger()

RETRY_S: Final = 5.0

_SUBJECT: Final = (QuotaEntity(entity_type=CLIENT_ID, name=None),)
_REMEDY: Final = "remove quota.producer.default and quota.consumer.default, and set quotas with kraft quotas"


class QuotaImport:
    def __init__(self, named: DefaultQuotas, forwarder: Forwarder) -> None:
        found = {PRODUCER_BYTE_RATE: named.producer, CONSUMER_BYTE_RATE: named.consumer}
        # Kafka's default, which files may spell out, means no limit.
        self._named = {key: value for key, value in found.items() if value is not None and value < INT64_MAX}
        self._forwarder = forwarder

    async def run(self) -> None:
        """Set the quotas that the default of client ids does not have. Try again until it has them."""
        logged: str | None = None
        while missing := self._missing():
            try:
                await self._set(missing)
            except Refusal as refusal:
                if str(refusal) != logged:
                    log.warning(
                        "default quotas of the configuration file not imported", quotas=missing, reason=str(refusal)
                    )
                logged = str(refusal)
                await asyncio.sleep(RETRY_S)
            else:
                log.warning("default quotas of the configuration file imported", quotas=missing, remedy=_REMEDY)
                return
        if self._named:
            log.warning("default quotas exist already, those of the configuration file have no effect", remedy=_REMEDY)

    def _missing(self) -> dict[str, int]:
        present = self._forwarder.image.client_quotas.get(_SUBJECT, {})
        return {key: value for key, value in self._named.items() if key not in present}

    async def _set(self, quotas: dict[str, int]) -> None:
        """Raises Refusal."""
        entry = EntryData(
            entity=(EntityData(entity_type=CLIENT_ID, entity_name=None),),
            ops=tuple(OpData(key=key, value=float(value), remove=False) for key, value in quotas.items()),
        )
        request = AlterClientQuotasRequest(entries=(entry,), validate_only=False)
        response = await self._forwarder.decided(ALTER_CLIENT_QUOTAS, request, client_quotas.is_applied)
        for result in response.entries:
            if result.error_code != ErrorCode.NONE:
                raise Refusal(ErrorCode(result.error_code), result.error_message or "")
