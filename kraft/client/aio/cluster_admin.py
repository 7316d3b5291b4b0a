"""The part of the admin client for asyncio that is about brokers, features, quotas and the quorum."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from kraft.client.any_broker import check
from kraft.client.ports import Node
from kraft.model.brokers import (
    BrokerActionResult,
    BrokerDescription,
    DescribeBrokersRequest,
    FenceBrokerRequest,
    UnfenceBrokerRequest,
    UnregisterBrokerRequest,
)
from kraft.model.client_quotas import (
    AlterClientQuotasRequest,
    DescribeClientQuotasRequest,
    QuotaAlteration,
    QuotaDescription,
    QuotaEntity,
    QuotaFilter,
    QuotaOperation,
)
from kraft.model.describe_quorum import DescribeQuorumRequest, QuorumDescription
from kraft.model.features import DescribeFeaturesRequest, DescribeFeaturesResponse, FeatureUpdate, UpdateFeaturesRequest
from kraft.rpc.calls import (
    ALTER_CLIENT_QUOTAS,
    DESCRIBE_BROKERS,
    DESCRIBE_CLIENT_QUOTAS,
    DESCRIBE_FEATURES,
    DESCRIBE_QUORUM,
    FENCE_BROKER,
    UNFENCE_BROKER,
    UNREGISTER_BROKER,
    UPDATE_FEATURES,
)

Answer = TypeVar("Answer")


class ClusterAdmin(ABC):
    """What an `Admin` can do besides topics, records and configs."""

    async def describe_brokers(
        self, broker_ids: Iterable[int] = (), *, timeout_ms: int | None = None
    ) -> list[BrokerDescription]:
        """Registered brokers by id, whether in service or not; all when none is named. Raises for a missing one."""
        request = DescribeBrokersRequest(broker_ids=list(broker_ids))

        async def ask(node: Node, timeout_s: float) -> list[BrokerDescription]:
            return (await node.call(DESCRIBE_BROKERS, request, timeout_s)).brokers

        return await self._ask_admin(ask, self._timeout(timeout_ms))

    async def fence_broker(
        self, broker_id: int, *, force: bool = False, timeout_ms: int | None = None
    ) -> BrokerActionResult:
        """Takes a broker out of service until `unfence_broker`, over restarts of it and of the whole cluster.

        Raises the Refusal when partitions would be left without a leader in sync and `force` is not set.
        """

        async def ask(node: Node, timeout_s: float) -> BrokerActionResult:
            request = FenceBrokerRequest(broker_id=broker_id, timeout_ms=int(timeout_s * 1_000), force=force)
            return await node.call(FENCE_BROKER, request, timeout_s)

        return await self._change(ask, timeout_ms)

    async def unfence_broker(self, broker_id: int, *, timeout_ms: int | None = None) -> BrokerActionResult:
        """Lets a broker back into service, where it is as soon as it has caught up."""

        async def ask(node: Node, timeout_s: float) -> BrokerActionResult:
            request = UnfenceBrokerRequest(broker_id=broker_id, timeout_ms=int(timeout_s * 1_000))
            return await node.call(UNFENCE_BROKER, request, timeout_s)

        return await self._change(ask, timeout_ms)

    async def unregister_broker(self, broker_id: int, *, timeout_ms: int | None = None) -> BrokerActionResult:
        """Forgets a broker that is gone for good. Raises the Refusal for one that runs or that holds replicas."""

        async def ask(node: Node, timeout_s: float) -> BrokerActionResult:
            request = UnregisterBrokerRequest(broker_id=broker_id, timeout_ms=int(timeout_s * 1_000))
            return await node.call(UNREGISTER_BROKER, request, timeout_s)

        return await self._change(ask, timeout_ms)

    async def describe_features(self, *, timeout_ms: int | None = None) -> DescribeFeaturesResponse:
        """The levels of features that the cluster acts on, and those that all of its brokers support."""

        async def ask(node: Node, timeout_s: float) -> DescribeFeaturesResponse:
            return await node.call(DESCRIBE_FEATURES, DescribeFeaturesRequest(), timeout_s)

        return await self._ask_admin(ask, self._timeout(timeout_ms))

    async def update_features(
        self, levels: Mapping[str, int], *, validate_only: bool = False, timeout_ms: int | None = None
    ) -> dict[str, int]:
        """Takes the cluster to these levels, all or none, for good. Returns those that were at another level before."""
        updates = [FeatureUpdate(feature=feature, level=level) for feature, level in levels.items()]

        async def ask(node: Node, timeout_s: float) -> dict[str, int]:
            request = UpdateFeaturesRequest(
                updates=updates, timeout_ms=int(timeout_s * 1_000), validate_only=validate_only
            )
            changed = (await node.call(UPDATE_FEATURES, request, timeout_s)).changed
            return {each.feature: each.level for each in changed}

        return await self._change(ask, timeout_ms)

    async def describe_client_quotas(
        self, filters: Iterable[QuotaFilter] = (), *, strict: bool = False, timeout_ms: int | None = None
    ) -> list[QuotaDescription]:
        """Quotas of the entities that match every filter; with `strict`, of those that have no part beside."""
        request = DescribeClientQuotasRequest(filters=list(filters), strict=strict)

        async def ask(node: Node, timeout_s: float) -> list[QuotaDescription]:
            return (await node.call(DESCRIBE_CLIENT_QUOTAS, request, timeout_s)).quotas

        return await self._ask_admin(ask, self._timeout(timeout_ms))

    async def alter_client_quotas(
        self,
        entity: Sequence[QuotaEntity],
        quotas: Mapping[str, float | None],
        *,
        validate_only: bool = False,
        timeout_ms: int | None = None,
    ) -> int:
        """Sets quotas of one entity; None takes one away. They are kept, and not enforced yet.

        Returns how many have another value now, or would have.
        """
        operations = [QuotaOperation(key=key, value=value) for key, value in quotas.items()]
        alteration = QuotaAlteration(entity=list(entity), operations=operations)

        async def ask(node: Node, timeout_s: float) -> int:
            request = AlterClientQuotasRequest(
                alterations=[alteration], timeout_ms=int(timeout_s * 1_000), validate_only=validate_only
            )
            return (await node.call(ALTER_CLIENT_QUOTAS, request, timeout_s)).changed

        return await self._change(ask, timeout_ms)

    async def describe_quorum(self, *, timeout_ms: int | None = None) -> QuorumDescription:
        """The metadata quorum as its leader sees it."""

        async def ask(node: Node, timeout_s: float) -> QuorumDescription:
            description = await node.call(DESCRIBE_QUORUM, DescribeQuorumRequest(), timeout_s)
            check(description.error_code, description.error_message)
            return description

        return await self._ask_admin(ask, self._timeout(timeout_ms))

    # --- what an Admin brings along ----------------------------------------------------------------------------

    @abstractmethod
    async def _change(self, ask: Callable[[Node, float], Awaitable[Answer]], timeout_ms: int | None) -> Answer:
        """Asks for what the active controller has to decide."""

    @abstractmethod
    async def _ask_admin(
        self, ask: Callable[[Node, float], Awaitable[Answer]], timeout_ms: int, attempt_ms: int | None = None
    ) -> Answer:
        """Asks one broker after the other, until one answers or the time is over."""

    @abstractmethod
    def _timeout(self, timeout_ms: int | None) -> int:
        """The caller's, or else the Admin's own."""
