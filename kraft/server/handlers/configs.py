"""IncrementalAlterConfigs: decided by the active controller, answered once this broker acts on it, too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from kraft.metadata.broker_configs import TopicDefaultsInEffect
from kraft.metadata.configs import TopicConfig
from kraft.metadata.controller import incremental_alter_configs
from kraft.metadata.image import MetadataImage
from kraft.model.config_requests import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    ResourceAlterationResult,
)
from kraft.model.errors import ErrorCode
from kraft.server.cluster.controller_client import ControllerClient, NoController
from kraft.server.cluster.metadata_loader import MetadataLoader
from kraft.server.config.keys import BY_NAME

LOCALLY_KNOWN_MAX_S: Final = 2.0
TIMEOUT_MAX_S: Final = 60.0


class AlterConfigsHandler:
    def __init__(
        self, loader: MetadataLoader, controllers: ControllerClient, settings: Mapping[str, str], defaults: TopicConfig
    ) -> None:
        """`settings` are those of the broker's file, and `defaults` what they come to for topics."""
        self._loader = loader
        self._controllers = controllers
        self._settings = settings
        self._defaults = TopicDefaultsInEffect(settings, defaults)

    async def handle(self, request: IncrementalAlterConfigsRequest) -> IncrementalAlterConfigsResponse:
        deadline_s = min(max(request.timeout_ms, 0) / 1_000, TIMEOUT_MAX_S)
        try:
            answer = await self._controllers.call_admin(
                lambda peer, timeout_s: peer.incremental_alter_configs(request, timeout_s), deadline_s
            )
        except NoController as error:
            return _timed_out(request, error)
        if not request.validate_only:
            await self._until_known(request, answer)
        return answer

    async def _until_known(
        self, request: IncrementalAlterConfigsRequest, answer: IncrementalAlterConfigsResponse
    ) -> None:
        """Whoever alters a config and then asks this broker, or produces to it, meets the new value, if it can be."""
        done = replace(
            request,
            resources=[
                resource
                for resource, result in zip(request.resources, answer.results, strict=True)
                if result.error_code is ErrorCode.NONE
            ],
        )

        def is_known(image: MetadataImage) -> bool:
            # Asked again for the same, a controller with this image would find nothing left to do.
            again = incremental_alter_configs(
                image,
                done,
                defaults=self._defaults(image),
                broker_settings=self._settings,
                broker_keys=BY_NAME,
            )
            return not again.records

        await self._loader.until(is_known, LOCALLY_KNOWN_MAX_S)


def _timed_out(request: IncrementalAlterConfigsRequest, error: NoController) -> IncrementalAlterConfigsResponse:
    return IncrementalAlterConfigsResponse(
        results=[
            ResourceAlterationResult(
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
                error_code=ErrorCode.REQUEST_TIMED_OUT,
                error_message=str(error),
            )
            for resource in request.resources
        ]
    )
