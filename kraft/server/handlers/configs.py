"""IncrementalAlterConfigs: forwarded to the active controller, answered once its decision is applied here."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from kraft.log.topic_config import TopicConfig
from kraft.metadata.broker_configs import TopicDefaultsInEffect
from kraft.metadata.config_decisions import incremental_alter_configs
from kraft.metadata.image import MetadataImage
from kraft.model.configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    ResourceAlterationResult,
)
from kraft.model.errors import ErrorCode
from kraft.rpc.call import Served
from kraft.rpc.calls import INCREMENTAL_ALTER_CONFIGS
from kraft.server.config.keys import BY_NAME
from kraft.server.handlers.forwarding import Forwarder, NoAnswer


class AlterConfigsHandler:
    def __init__(self, forwarder: Forwarder, settings: Mapping[str, str], defaults: TopicConfig) -> None:
        """`settings` are those of the broker's file, `defaults` the topic configs that follow from them."""
        self._forwarder = forwarder
        self._settings = settings
        self._defaults = TopicDefaultsInEffect(settings, defaults)

    async def handle(self, request: IncrementalAlterConfigsRequest) -> IncrementalAlterConfigsResponse:
        try:
            answer = await self._forwarder.forward(INCREMENTAL_ALTER_CONFIGS, request)
        except NoAnswer as refusal:
            return _all_refused(request, refusal)
        if not request.validate_only:
            await self._until_applied(request, answer)
        return answer

    async def _until_applied(
        self, request: IncrementalAlterConfigsRequest, answer: IncrementalAlterConfigsResponse
    ) -> None:
        altered = {
            (result.resource_type, result.resource_name)
            for result in answer.results
            if result.error_code is ErrorCode.NONE
        }
        done = replace(
            request,
            resources=[each for each in request.resources if (each.resource_type, each.resource_name) in altered],
        )

        def is_applied(image: MetadataImage) -> bool:
            # This image has the change if deciding the same request on it changes nothing.
            again = incremental_alter_configs(
                image,
                done,
                defaults=self._defaults(image),
                broker_settings=self._settings,
                broker_keys=BY_NAME,
            )
            return not again.records

        await self._forwarder.until(is_applied)

    def served(self) -> list[Served]:
        return [INCREMENTAL_ALTER_CONFIGS.served_by(self.handle)]


def _all_refused(request: IncrementalAlterConfigsRequest, refusal: NoAnswer) -> IncrementalAlterConfigsResponse:
    return IncrementalAlterConfigsResponse(
        results=[
            ResourceAlterationResult(
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
                error_code=refusal.error_code,
                error_message=refusal.message,
            )
            for resource in request.resources
        ]
    )
