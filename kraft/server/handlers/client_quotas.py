"""AlterClientQuotas: forwarded to and decided by the active controller."""

from __future__ import annotations

import structlog
from msgspec.structs import replace

from kraft.metadata.quota_decisions import alter_client_quotas
from kraft.model.client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse
from kraft.rpc.call import Served
from kraft.rpc.calls import ALTER_CLIENT_QUOTAS
from kraft.server.handlers.decisions import Decisions
from kraft.server.handlers.forwarding import Forwarder

log = structlog.get_logger()


class ClientQuotasHandler:
    def __init__(self, forwarder: Forwarder) -> None:
        self._forwarder = forwarder

    async def alter(self, request: AlterClientQuotasRequest) -> AlterClientQuotasResponse:
        answer = await self._forwarder.forward(ALTER_CLIENT_QUOTAS, request)
        if not request.validate_only:
            # This image has the change if deciding the same request on it changes nothing.
            again = replace(request, validate_only=True)
            await self._forwarder.until(lambda image: alter_client_quotas(image, again).response.changed == 0)
        return answer

    def served(self) -> list[Served]:
        return [ALTER_CLIENT_QUOTAS.served_by(self.alter)]


class ControllerClientQuotasHandler:
    """The controller's side. Raises Refusal NOT_CONTROLLER while this node is not the active controller."""

    def __init__(self, decisions: Decisions) -> None:
        self._decisions = decisions
        self._has_warned = False

    async def alter(self, request: AlterClientQuotasRequest) -> AlterClientQuotasResponse:
        answer = await self._decisions.submit(lambda image: alter_client_quotas(image, request))
        if answer.changed and not request.validate_only and not self._has_warned:
            # Clients of Kafka's protocol have no other way to learn it.
            self._has_warned = True
            log.warning(
                "client quotas changed, and not enforced yet", remedy="do not rely on them to slow clients down"
            )
        return answer

    def served(self) -> list[Served]:
        return [ALTER_CLIENT_QUOTAS.served_by(self.alter)]
