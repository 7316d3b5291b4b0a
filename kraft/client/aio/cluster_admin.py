"""Calls of the asyncio admin client for brokers, features, client quotas and the quorum."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kraft.client.aio.admin_calls import AdminCalls
from kraft.client.cluster.any_broker import check
from kraft.client.cluster.ports import Node
from kraft.client.model.errors import NoActiveController
from kraft.model.brokers import (
    BrokerActionResult,
    BrokerDescription,
    DescribeBrokersRequest,
    FenceBrokerRequest,
    UnfenceBrokerRequest,
    UnregisterBrokerRequest,
)
from kraft.model.client_quotas import QuotaMatch
from kraft.model.describe_quorum import DescribeQuorumRequest, QuorumDescription
from kraft.model.errors import ErrorCode, KraftError
from kraft.model.features import DescribeFeaturesRequest, DescribeFeaturesResponse
from kraft.model.log_directories import DescribeLogDirectoriesRequest, LogDirectoryDescription
from kraft.rpc.calls import (
    ALTER_CLIENT_QUOTAS,
    DESCRIBE_BROKERS,
    DESCRIBE_CLIENT_QUOTAS,
    DESCRIBE_FEATURES,
    DESCRIBE_LOG_DIRECTORIES,
    DESCRIBE_QUORUM,
    FENCE_BROKER,
    UNFENCE_BROKER,
    UNREGISTER_BROKER,
    UPDATE_FEATURES,
)
from kraft.wire.schema.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from kraft.wire.schema.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from kraft.wire.schema.describe_client_quotas import EntryData as QuotasOfEntity
from kraft.wire.schema.update_features import FeatureUpdateKey, UpdateFeaturesRequest


class ClusterAdmin(AdminCalls):
    """Admin calls for brokers, features, client quotas and the quorum."""

    async def describe_brokers(
        self, broker_ids: Iterable[int] = (), *, timeout_ms: int | None = None
    ) -> list[BrokerDescription]:
        """Return registered brokers, sorted by id, in service or not; all if none is given.

        Raises BROKER_ID_NOT_REGISTERED if one is not registered.
        """
        request = DescribeBrokersRequest(broker_ids=list(broker_ids))

        async def ask(node: Node, timeout_s: float) -> list[BrokerDescription]:
            return (await node.call(DESCRIBE_BROKERS, request, timeout_s)).brokers

        return await self._ask_admin(ask, self._timeout(timeout_ms))

    async def describe_log_directories(
        self, *, with_replicas: bool = True, timeout_ms: int | None = None
    ) -> dict[int, list[LogDirectoryDescription] | KraftError]:
        """Return the log directories of every broker in service, or its error, by broker id."""
        request = DescribeLogDirectoriesRequest(partitions=[], all_partitions=with_replicas)
        call = self._outcome_of_each_broker(DESCRIBE_LOG_DIRECTORIES, request, timeout_ms)
        outcomes = await self._watched(call, timeout_ms)
        return {
            broker_id: outcome if isinstance(outcome, KraftError) else outcome.directories
            for broker_id, outcome in outcomes.items()
        }

    async def fence_broker(
        self, broker_id: int, *, force: bool = False, timeout_ms: int | None = None
    ) -> BrokerActionResult:
        """Set the operator fence: the broker stays out of service until `unfence_broker`, also after restarts.

        Raises the Refusal if partitions would have no in-sync leader and `force` is not set.
        """

        async def ask(node: Node, timeout_s: float) -> BrokerActionResult:
            request = FenceBrokerRequest(broker_id=broker_id, timeout_ms=int(timeout_s * 1_000), force=force)
            return await node.call(FENCE_BROKER, request, timeout_s)

        return await self._change(ask, timeout_ms)

    async def unfence_broker(self, broker_id: int, *, timeout_ms: int | None = None) -> BrokerActionResult:
        """Remove the operator fence. The broker is in service once it has caught up with the metadata."""

        async def ask(node: Node, timeout_s: float) -> BrokerActionResult:
            request = UnfenceBrokerRequest(broker_id=broker_id, timeout_ms=int(timeout_s * 1_000))
            return await node.call(UNFENCE_BROKER, request, timeout_s)

        return await self._change(ask, timeout_ms)

    async def unregister_broker(self, broker_id: int, *, timeout_ms: int | None = None) -> BrokerActionResult:
        """Remove the registration of a broker. Raises the Refusal if the broker runs or holds replicas."""

        async def ask(node: Node, timeout_s: float) -> BrokerActionResult:
            request = UnregisterBrokerRequest(broker_id=broker_id, timeout_ms=int(timeout_s * 1_000))
            return await node.call(UNREGISTER_BROKER, request, timeout_s)

        return await self._change(ask, timeout_ms)

    async def describe_features(self, *, timeout_ms: int | None = None) -> DescribeFeaturesResponse:
        """Return the feature levels that the cluster uses, and those that all of its brokers support."""

        async def ask(node: Node, timeout_s: float) -> DescribeFeaturesResponse:
            return await node.call(DESCRIBE_FEATURES, DescribeFeaturesRequest(), timeout_s)

        return await self._ask_admin(ask, self._timeout(timeout_ms))

    async def update_features(
        self, levels: Mapping[str, int], *, validate_only: bool = False, timeout_ms: int | None = None
    ) -> dict[str, int]:
        """Set the cluster's feature levels, all or none, and return those that changed. Levels cannot be lowered."""
        updates = tuple(FeatureUpdateKey(feature=feature, max_version_level=level) for feature, level in levels.items())

        async def ask(node: Node, timeout_s: float) -> None:
            request = UpdateFeaturesRequest(
                feature_updates=updates, timeout_ms=int(timeout_s * 1_000), validate_only=validate_only
            )
            response = await node.call(UPDATE_FEATURES, request, timeout_s)
            check(response.error_code, response.error_message)

        described = await self.describe_features(timeout_ms=timeout_ms)
        before = {each.feature: each.finalized_level for each in described.features}
        await self._change(ask, timeout_ms)
        return {feature: level for feature, level in levels.items() if level != before.get(feature)}

    async def describe_client_quotas(
        self,
        entity: Mapping[str, str | QuotaMatch | None] | None = None,
        *,
        strict: bool = False,
        timeout_ms: int | None = None,
    ) -> list[QuotasOfEntity]:
        """Return the quotas of entities that match: a name for each type of `entity`, None for the default of the type,
        or QuotaMatch.ANY; with `strict`, only of those without other parts. All quotas without `entity`.
        """
        components = tuple(_component(entity_type, name) for entity_type, name in (entity or {}).items())
        request = DescribeClientQuotasRequest(components=components, strict=strict)

        async def ask(node: Node, timeout_s: float) -> list[QuotasOfEntity]:
            return list((await node.call(DESCRIBE_CLIENT_QUOTAS, request, timeout_s)).entries or ())

        return await self._ask_admin(ask, self._timeout(timeout_ms))

    async def alter_client_quotas(
        self,
        entity: Mapping[str, str | None],
        quotas: Mapping[str, float | None],
        *,
        validate_only: bool = False,
        timeout_ms: int | None = None,
    ) -> None:
        """Set quotas of one entity, given as names by type; None removes one. Quotas are stored, but not enforced yet.

        A name that is None is the default of its type. Raises the cluster's Refusal.
        """
        entry = EntryData(
            entity=tuple(EntityData(entity_type=each, entity_name=name) for each, name in entity.items()),
            ops=tuple(OpData(key=key, value=value or 0.0, remove=value is None) for key, value in quotas.items()),
        )
        request = AlterClientQuotasRequest(entries=(entry,), validate_only=validate_only)

        async def ask(node: Node, timeout_s: float) -> None:
            (result,) = (await node.call(ALTER_CLIENT_QUOTAS, request, timeout_s)).entries
            check(result.error_code, result.error_message)

        await self._change(ask, timeout_ms)

    async def describe_quorum(
        self, *, timeout_ms: int | None = None, wait_for_leader: bool = True
    ) -> QuorumDescription:
        """Return the state of the metadata quorum as its leader reports it.

        Raises NoActiveController if there is no leader: at the end of the timeout, or without `wait_for_leader` as soon
        as a broker says so.
        """

        async def ask(node: Node, timeout_s: float) -> QuorumDescription:
            description = await node.call(DESCRIBE_QUORUM, DescribeQuorumRequest(), timeout_s)
            if description.error_code is ErrorCode.NOT_CONTROLLER and (wait_for_leader or not description.voters):
                raise NoActiveController(description)
            return description

        description = await self._ask_admin(ask, self._timeout(timeout_ms))
        if description.error_code is ErrorCode.NOT_CONTROLLER:
            raise NoActiveController(description)
        check(description.error_code, description.error_message)
        return description


def _component(entity_type: str, name: str | QuotaMatch | None) -> ComponentData:
    if isinstance(name, QuotaMatch):
        return ComponentData(entity_type=entity_type, match_type=name, match=None)
    match_type = QuotaMatch.DEFAULT if name is None else QuotaMatch.EXACT
    return ComponentData(entity_type=entity_type, match_type=match_type, match=name)
