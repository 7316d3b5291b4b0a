"""DescribeClientQuotas and AlterClientQuotas."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from kraft.metadata.quota_decisions import alter_client_quotas, describe_client_quotas
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.quota_requests import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from kraft.server.cluster.controller_client import ControllerClient, NoController
from kraft.server.cluster.metadata_loader import MetadataLoader

LOCALLY_KNOWN_MAX_S: Final = 2.0
TIMEOUT_MAX_S: Final = 60.0


class ClientQuotasHandler:
    def __init__(self, loader: MetadataLoader, controllers: ControllerClient) -> None:
        self._loader = loader
        self._controllers = controllers

    async def describe(self, request: DescribeClientQuotasRequest) -> DescribeClientQuotasResponse:
        return describe_client_quotas(self._loader.image, request)

    async def alter(self, request: AlterClientQuotasRequest) -> AlterClientQuotasResponse:
        try:
            answer = await self._controllers.call_admin(
                lambda peer, timeout_s: peer.alter_client_quotas(request, timeout_s),
                min(max(request.timeout_ms, 0) / 1_000, TIMEOUT_MAX_S),
            )
        except NoController as error:
            raise Refusal(ErrorCode.REQUEST_TIMED_OUT, str(error)) from error
        if not request.validate_only:
            # Asked again for the same, a controller with this image would find nothing left to do.
            again = replace(request, validate_only=True)
            await self._loader.until(
                lambda image: alter_client_quotas(image, again).response.changed == 0, LOCALLY_KNOWN_MAX_S
            )
        return answer
