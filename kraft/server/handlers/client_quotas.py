"""AlterClientQuotas: forwarded to and decided by the active controller."""

from __future__ import annotations

import structlog

from kraft.metadata.decision import Decision
from kraft.metadata.image import MetadataImage
from kraft.metadata.quota_decisions import alter_client_quotas, refused_entry
from kraft.model.errors import Refusal
from kraft.server.handlers.decisions import Decisions
from kraft.wire.schema.alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse

log = structlog.get_logger()


def is_applied(image: MetadataImage, request: AlterClientQuotasRequest, _: AlterClientQuotasResponse) -> bool:
    """Return whether deciding the same request on this image changes nothing."""
    try:
        return not alter_client_quotas(image, request).records
    except Refusal:
        # The controller accepted it, so this image is older: it lacks the feature level that quotas need.
        return False


def refused(request: AlterClientQuotasRequest, refusal: Refusal) -> AlterClientQuotasResponse:
    return AlterClientQuotasResponse(entries=tuple(refused_entry(entry, refusal) for entry in request.entries))


class Alterations:
    """The controller's side. Raises Refusal NOT_CONTROLLER while this node is not the active controller."""

    def __init__(self, decisions: Decisions) -> None:
        self._decisions = decisions
        self._has_warned = False

    async def alter(self, request: AlterClientQuotasRequest) -> AlterClientQuotasResponse:
        has_changed = False

        def decide(image: MetadataImage) -> Decision[AlterClientQuotasResponse]:
            nonlocal has_changed
            decision = alter_client_quotas(image, request)
            has_changed = bool(decision.records)
            return decision

        response = await self._decisions.submit(decide)
        if has_changed and not self._has_warned:
            # Clients of Kafka's protocol have no other way to learn it.
            self._has_warned = True
            log.warning(
                "client quotas changed, and not enforced yet", remedy="do not rely on them to slow clients down"
            )
        return response
