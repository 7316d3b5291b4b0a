"""Calls of the asyncio admin client for brokers, features, client quotas and the quorum."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from kraft import __version__
from kraft.client.aio.admin_calls import AdminClient
from kraft.client.cluster.any_broker import check
from kraft.client.cluster.network import PYTHON
from kraft.model.brokers import (
    BrokerActionResult,
    BrokerDescription,
    DescribeBrokersRequest,
    FenceBrokerRequest,
    UnfenceBrokerRequest,
)
from kraft.model.client_quotas import QuotaMatch
from kraft.model.clients import ClientConnection, DescribeClientsRequest
from kraft.model.describe_quorum import QuorumDescription
from kraft.model.errors import KraftError
from kraft.model.features import DescribeFeaturesRequest, DescribeFeaturesResponse
from kraft.rpc.calls import (
    ALTER_CLIENT_QUOTAS,
    DESCRIBE_BROKERS,
    DESCRIBE_CLIENT_QUOTAS,
    DESCRIBE_FEATURES,
    FENCE_BROKER,
    UNFENCE_BROKER,
    UNREGISTER_BROKER,
    UPDATE_FEATURES,
)
from kraft.rpc.client_calls import API_VERSIONS, DESCRIBE_CLIENTS
from kraft.wire.schema.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    EntryData,
    OpData,
)
from kraft.wire.schema.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kraft.wire.schema.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from kraft.wire.schema.describe_client_quotas import EntryData as QuotasOfEntity
from kraft.wire.schema.metadata import MetadataResponse
from kraft.wire.schema.unregister_broker import UnregisterBrokerRequest
from kraft.wire.schema.update_features import FeatureUpdateKey, UpdateFeaturesRequest


async def describe_brokers(
    admin: AdminClient, broker_ids: Iterable[int] = (), *, timeout_ms: int | None = None
) -> list[BrokerDescription]:
    """Return registered brokers, sorted by id, in service or not; all if none is given.

    Raises BROKER_ID_NOT_REGISTERED if one is not registered.
    """
    request = DescribeBrokersRequest(broker_ids=list(broker_ids))
    return (await admin.calls.ask(DESCRIBE_BROKERS, request, timeout_ms)).brokers


async def describe_clients(
    admin: AdminClient, broker_ids: Collection[int] | None = None, *, timeout_ms: int | None = None
) -> dict[int, list[ClientConnection] | KraftError]:
    """Return the connections of clients, or the error, of every broker in service, or of those among these, by id."""
    call = admin.calls.outcome_of_each_broker(DESCRIBE_CLIENTS, DescribeClientsRequest(), timeout_ms, broker_ids)
    outcomes = await admin.calls.watched(call, timeout_ms)
    return {
        broker_id: outcome if isinstance(outcome, KraftError) else outcome.connections
        for broker_id, outcome in outcomes.items()
    }


async def describe_api_versions(
    admin: AdminClient, *, timeout_ms: int | None = None
) -> dict[int, ApiVersionsResponse | KraftError]:
    """Return the APIs of Kafka's protocol, with versions, or the error, of every broker in service, by id."""
    request = ApiVersionsRequest(client_software_name=PYTHON, client_software_version=__version__)
    call = admin.calls.outcome_of_each_broker(API_VERSIONS, request, timeout_ms)
    return await admin.calls.watched(call, timeout_ms)


async def fence_broker(
    admin: AdminClient, broker_id: int, *, force: bool = False, timeout_ms: int | None = None
) -> BrokerActionResult:
    """Set the operator fence: the broker stays out of service until `unfence_broker`, also after restarts.

    Raises the Refusal if partitions would have no in-sync leader and `force` is not set.
    """
    return await admin.calls.change(
        FENCE_BROKER,
        lambda attempt_ms: FenceBrokerRequest(broker_id=broker_id, timeout_ms=attempt_ms, force=force),
        timeout_ms,
    )


async def unfence_broker(admin: AdminClient, broker_id: int, *, timeout_ms: int | None = None) -> BrokerActionResult:
    """Remove the operator fence. The broker is in service once it has caught up with the metadata."""
    return await admin.calls.change(
        UNFENCE_BROKER,
        lambda attempt_ms: UnfenceBrokerRequest(broker_id=broker_id, timeout_ms=attempt_ms),
        timeout_ms,
    )


async def unregister_broker(admin: AdminClient, broker_id: int, *, timeout_ms: int | None = None) -> None:
    """Remove the registration of a broker. Raises the Refusal if the broker runs or holds replicas."""
    request = UnregisterBrokerRequest(broker_id=broker_id)
    await admin.calls.change(UNREGISTER_BROKER, lambda _: request, timeout_ms)


async def describe_features(admin: AdminClient, *, timeout_ms: int | None = None) -> DescribeFeaturesResponse:
    """Return the feature levels that the cluster uses, and those that all of its brokers support."""
    return await admin.calls.ask(DESCRIBE_FEATURES, DescribeFeaturesRequest(), timeout_ms)


async def update_features(
    admin: AdminClient, levels: Mapping[str, int], *, validate_only: bool = False, timeout_ms: int | None = None
) -> dict[str, int]:
    """Set the cluster's feature levels, all or none, and return those that changed. Levels cannot be lowered."""
    updates = tuple(FeatureUpdateKey(feature=feature, max_version_level=level) for feature, level in levels.items())
    described = await describe_features(admin, timeout_ms=timeout_ms)
    before = {each.feature: each.finalized_level for each in described.features}
    await admin.calls.change(
        UPDATE_FEATURES,
        lambda attempt_ms: UpdateFeaturesRequest(
            feature_updates=updates, timeout_ms=attempt_ms, validate_only=validate_only
        ),
        timeout_ms,
        lambda response: check(response.error_code, response.error_message),
    )
    return {feature: level for feature, level in levels.items() if level != before.get(feature)}


async def describe_client_quotas(
    admin: AdminClient,
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
    return list((await admin.calls.ask(DESCRIBE_CLIENT_QUOTAS, request, timeout_ms)).entries or ())


async def alter_client_quotas(
    admin: AdminClient,
    entity: Mapping[str, str | None],
    quotas: Mapping[str, float | None],
    *,
    validate_only: bool = False,
    timeout_ms: int | None = None,
) -> None:
    """Set quotas of one entity, given as names by type; None removes one.

    A name that is None is the default of its type. Each broker enforces quotas by itself, from the next request on.
    Raises the cluster's Refusal.
    """
    entry = EntryData(
        entity=tuple(EntityData(entity_type=each, entity_name=name) for each, name in entity.items()),
        ops=tuple(OpData(key=key, value=value or 0.0, remove=value is None) for key, value in quotas.items()),
    )
    request = AlterClientQuotasRequest(entries=(entry,), validate_only=validate_only)
    await admin.calls.change(ALTER_CLIENT_QUOTAS, lambda _: request, timeout_ms, _check_quotas)


async def describe_quorum(
    admin: AdminClient, *, timeout_ms: int | None = None, wait_for_leader: bool = True
) -> QuorumDescription:
    """Return the state of the metadata quorum as its leader reports it.

    Raises NoActiveController if there is no leader: at the end of the timeout, or without `wait_for_leader` as soon
    as a broker says so.
    """
    return await admin.calls.describe_quorum(timeout_ms=timeout_ms, wait_for_leader=wait_for_leader)


async def describe_cluster(
    admin: AdminClient, *, topics: Iterable[str] | None = None, timeout_ms: int | None = None
) -> MetadataResponse:
    """Return cluster id, active controller, brokers, and these topics, or all, with the leaders of their partitions."""
    names = None if topics is None else list(topics)
    return await admin.calls.describe_cluster(names, timeout_ms=timeout_ms)


def _check_quotas(response: AlterClientQuotasResponse) -> None:
    for result in response.entries:
        check(result.error_code, result.error_message)


def _component(entity_type: str, name: str | QuotaMatch | None) -> ComponentData:
    if isinstance(name, QuotaMatch):
        return ComponentData(entity_type=entity_type, match_type=name, match=None)
    match_type = QuotaMatch.DEFAULT if name is None else QuotaMatch.EXACT
    return ComponentData(entity_type=entity_type, match_type=match_type, match=name)
