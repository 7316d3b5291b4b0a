"""What operators ask of the active controller about brokers, features and quotas."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

import structlog

from kraft.metadata import controller
from kraft.metadata.configs import TopicConfig
from kraft.metadata.image import MetadataImage
from kraft.model.brokers import BrokerActionResult, FenceBrokerRequest, UnfenceBrokerRequest, UnregisterBrokerRequest
from kraft.model.client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse
from kraft.model.features import FeatureRange, UpdateFeaturesRequest, UpdateFeaturesResponse
from kraft.model.ids import BrokerId
from kraft.rpc.call import Served
from kraft.rpc.calls import (
    ALTER_CLIENT_QUOTAS,
    FENCE_BROKER,
    UNFENCE_BROKER,
    UNREGISTER_BROKER,
    UPDATE_FEATURES,
)
from kraft.server.controller.state_machine_host import StateMachineHost

log = structlog.get_logger()

FeaturesOfOthers = Callable[[MetadataImage], Awaitable[Mapping[int, Sequence[FeatureRange]]]]
"""What the other controllers support that are no brokers, by node id. Raises Refusal when one does not tell."""


class ClusterAdmin:
    """Every method that changes something raises Refusal NOT_CONTROLLER while this node is not active."""

    def __init__(
        self,
        host: StateMachineHost,
        *,
        is_heard_from: Callable[[BrokerId], bool],
        topic_defaults: Callable[[MetadataImage], TopicConfig],
        features_of_others: FeaturesOfOthers,
    ) -> None:
        self._host = host
        self._features_of_others = features_of_others
        self._is_heard_from = is_heard_from
        self._topic_defaults = topic_defaults

    async def fence_broker(self, request: FenceBrokerRequest) -> BrokerActionResult:
        result = await self._host.submit(
            lambda image: controller.fence_by_operator(image, request, defaults=self._topic_defaults(image))
        )
        if result.changed:
            log.warning("broker is fenced by an operator", broker=request.broker_id, leaderless=len(result.leaderless))
        return result

    async def unfence_broker(self, request: UnfenceBrokerRequest) -> BrokerActionResult:
        result = await self._host.submit(lambda image: controller.unfence_by_operator(image, request))
        if result.changed:
            log.info("broker is fenced by an operator no longer", broker=request.broker_id)
        return result

    async def unregister_broker(self, request: UnregisterBrokerRequest) -> BrokerActionResult:
        result = await self._host.submit(
            lambda image: controller.unregister_broker(
                image, request, session_is_alive=self._is_heard_from(BrokerId(request.broker_id))
            )
        )
        log.info("broker is unregistered", broker=request.broker_id)
        return result

    async def update_features(self, request: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
        self._host.check_active()
        others = await self._features_of_others(self._host.image)
        result = await self._host.submit(lambda image: controller.update_features(image, request, others))
        if result.changed and not request.validate_only:
            log.info("feature levels changed", levels={each.feature: each.level for each in result.changed})
        return result

    async def alter_client_quotas(self, request: AlterClientQuotasRequest) -> AlterClientQuotasResponse:
        return await self._host.submit(lambda image: controller.alter_client_quotas(image, request))

    def served(self) -> list[Served]:
        return [
            FENCE_BROKER.served_by(self.fence_broker),
            UNFENCE_BROKER.served_by(self.unfence_broker),
            UNREGISTER_BROKER.served_by(self.unregister_broker),
            UPDATE_FEATURES.served_by(self.update_features),
            ALTER_CLIENT_QUOTAS.served_by(self.alter_client_quotas),
        ]
