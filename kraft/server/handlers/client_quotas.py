"""AlterClientQuotas: forwarded to and decided by the active controller."""

from __future__ import annotations

from kraft.metadata.image import MetadataImage
from kraft.metadata.quota_decisions import alter_client_quotas, refused_entry
from kraft.model.errors import Refusal
from kraft.wire.schema.alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse


def is_applied(image: MetadataImage, request: AlterClientQuotasRequest, _: AlterClientQuotasResponse) -> bool:
    """Return whether deciding the same request on this image changes nothing."""
    try:
        return not alter_client_quotas(image, request).records
    except Refusal:
        # The controller accepted it, so this image is older: it lacks the feature level that quotas need.
        return False


def refused(request: AlterClientQuotasRequest, refusal: Refusal) -> AlterClientQuotasResponse:
    return AlterClientQuotasResponse(entries=tuple(refused_entry(entry, refusal) for entry in request.entries))
