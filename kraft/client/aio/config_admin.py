"""Calls of the asyncio admin client for configs of topics, brokers and groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias, TypeVar

from kraft.client.aio.admin_calls import AdminClient
from kraft.client.cluster.any_broker import check
from kraft.model.configs import ConfigOperation, ConfigResourceType
from kraft.model.errors import ErrorCode, Refusal
from kraft.rpc.call import Call
from kraft.rpc.calls import DESCRIBE_CONFIGS, INCREMENTAL_ALTER_CONFIGS
from kraft.rpc.config_calls import LIST_CONFIG_RESOURCES
from kraft.wire.schema.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)
from kraft.wire.schema.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kraft.wire.schema.list_config_resources import ConfigResource, ListConfigResourcesRequest

Request = TypeVar("Request")
Response = TypeVar("Response")

Configs: TypeAlias = list[DescribeConfigsResourceResult]

EVERY_BROKER: Final = ""
"""Resource name of the configs that apply to all brokers."""

TOPICS_A_CALL: Final = 500
"""Topics whose configs are described in one call: an answer about so many has some 2 MB."""


async def list_config_resources(
    admin: AdminClient, resource_types: Iterable[ConfigResourceType] = (), *, timeout_ms: int | None = None
) -> Sequence[ConfigResource]:
    """Return the resources of these types that have configs, sorted by name within a type; of every type if none is
    given.
    """
    request = ListConfigResourcesRequest(resource_types=tuple(resource_types))
    return (await admin.calls.ask(LIST_CONFIG_RESOURCES, request, timeout_ms)).config_resources


async def describe_topic_configs(admin: AdminClient, topic: str, *, timeout_ms: int | None = None) -> Configs:
    """Return the effective value of every config of the topic, with source and synonyms, sorted by key."""
    return await _described_by_any(admin, ConfigResourceType.TOPIC, topic, timeout_ms)


async def describe_configs_of_topics(
    admin: AdminClient, topics: Sequence[str], *, timeout_ms: int | None = None
) -> dict[str, Configs]:
    """Return the effective value of every config of each topic with its source, without synonyms, sorted by key.

    A topic that does not exist is left out.
    """
    found: dict[str, Configs] = {}
    for first in range(0, len(topics), TOPICS_A_CALL):
        request = DescribeConfigsRequest(
            resources=tuple(
                _resource(ConfigResourceType.TOPIC, topic) for topic in topics[first : first + TOPICS_A_CALL]
            )
        )
        for described in (await admin.calls.ask(DESCRIBE_CONFIGS, request, timeout_ms)).results:
            if described.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                check(described.error_code, described.error_message or repr(described.resource_name))
                found[described.resource_name] = list(described.configs)
    return found


async def describe_group_configs(admin: AdminClient, group_id: str, *, timeout_ms: int | None = None) -> Configs:
    """Return every config of a group of the consumer protocol, its own or from the broker's file, sorted by key."""
    return await _described_by_any(admin, ConfigResourceType.GROUP, group_id, timeout_ms)


async def describe_broker_configs(
    admin: AdminClient, broker_id: int | None, *, timeout_ms: int | None = None
) -> Configs:
    """Return every config of the broker, from its file or set at run time, sorted by key.

    `broker_id` None: the configs set for all brokers. Raises BROKER_NOT_AVAILABLE for a broker out of service.
    """
    if broker_id is None:
        return await _described_by_any(admin, ConfigResourceType.BROKER, EVERY_BROKER, timeout_ms)
    request = _request(ConfigResourceType.BROKER, str(broker_id))
    response = await _asked_of(admin, broker_id, DESCRIBE_CONFIGS, request, timeout_ms)
    _check_described(response)
    return list(response.results[0].configs)


async def describe_broker_loggers(
    admin: AdminClient, broker_id: int, *, timeout_ms: int | None = None
) -> dict[str, str]:
    """Return the level of each of the broker's loggers, by name. Raises BROKER_NOT_AVAILABLE as for its configs."""
    request = _request(ConfigResourceType.BROKER_LOGGER, str(broker_id))
    response = await _asked_of(admin, broker_id, DESCRIBE_CONFIGS, request, timeout_ms)
    _check_described(response)
    return {each.name: each.value or "" for each in response.results[0].configs}


async def alter_broker_loggers(
    admin: AdminClient,
    broker_id: int,
    levels: Mapping[str, str] | None = None,
    *,
    delete: Iterable[str] = (),
    validate_only: bool = False,
    timeout_ms: int | None = None,
) -> None:
    """Set levels of the broker's loggers until it ends; a logger in `delete` has that of the package above it."""
    resource = AlterConfigsResource(
        resource_type=ConfigResourceType.BROKER_LOGGER,
        resource_name=str(broker_id),
        configs=tuple(_alterations(levels, delete)),
    )
    request = IncrementalAlterConfigsRequest(resources=(resource,), validate_only=validate_only)
    response = await _asked_of(admin, broker_id, INCREMENTAL_ALTER_CONFIGS, request, timeout_ms)
    _check_altered(response, f"loggers of broker {broker_id}")


async def _asked_of(
    admin: AdminClient, broker_id: int, call: Call[Request, Response], request: Request, timeout_ms: int | None
) -> Response:
    """Ask this broker. Raises BROKER_NOT_AVAILABLE if it is out of service."""
    cluster = await admin.calls.describe_cluster([], timeout_ms=timeout_ms)
    for broker in cluster.brokers:
        if broker.node_id == broker_id:
            node, timeout_s = admin.calls.node(f"{broker.host}:{broker.port}"), admin.calls.timeout(timeout_ms) / 1_000
            return await node.call(call, request, timeout_s)
    there = ", ".join(str(broker.node_id) for broker in cluster.brokers)
    raise Refusal(ErrorCode.BROKER_NOT_AVAILABLE, f"broker {broker_id} is not in service; in service are: {there}")


async def alter_topic_configs(
    admin: AdminClient,
    topic: str,
    configs: Mapping[str, str] | None = None,
    *,
    delete: Iterable[str] = (),
    append: Mapping[str, str] | None = None,
    subtract: Mapping[str, str] | None = None,
    validate_only: bool = False,
    timeout_ms: int | None = None,
) -> None:
    """Set `configs` and reset the keys in `delete` to their defaults. Raises the cluster's Refusal.

    Changes all keys or none. `append` and `subtract` are for keys whose value is a list. Keys that are not given
    stay unchanged. Takes effect on each broker within moments, without a restart.
    """
    alterations = _alterations(configs, delete)
    alterations += _each(ConfigOperation.APPEND, append or {})
    alterations += _each(ConfigOperation.SUBTRACT, subtract or {})
    await _alter_configs(
        admin, ConfigResourceType.TOPIC, topic, alterations, validate_only=validate_only, timeout_ms=timeout_ms
    )


async def alter_broker_configs(
    admin: AdminClient,
    broker_id: int | None,
    configs: Mapping[str, str] | None = None,
    *,
    delete: Iterable[str] = (),
    validate_only: bool = False,
    timeout_ms: int | None = None,
) -> None:
    """Set `configs`, which override the broker's file, and reset the keys in `delete` to the file's values.

    `broker_id` None sets them for all brokers that have no value of their own. Takes effect without a restart; a
    key that needs one is refused. Apache Kafka takes the configs of a broker at the broker itself only, and so raises
    BROKER_NOT_AVAILABLE for one out of service.
    """
    name = EVERY_BROKER if broker_id is None else str(broker_id)
    alterations = _alterations(configs, delete)
    try:
        await _alter_configs(
            admin, ConfigResourceType.BROKER, name, alterations, validate_only=validate_only, timeout_ms=timeout_ms
        )
    except Refusal as refusal:
        if broker_id is None or refusal.error_code is not ErrorCode.INVALID_REQUEST:
            raise
        resource = AlterConfigsResource(
            resource_type=ConfigResourceType.BROKER, resource_name=name, configs=tuple(alterations)
        )
        request = IncrementalAlterConfigsRequest(resources=(resource,), validate_only=validate_only)
        response = await _asked_of(admin, broker_id, INCREMENTAL_ALTER_CONFIGS, request, timeout_ms)
        _check_altered(response, f"broker {broker_id}")


async def alter_group_configs(
    admin: AdminClient,
    group_id: str,
    configs: Mapping[str, str] | None = None,
    *,
    validate_only: bool = False,
    delete: Iterable[str] = (),
    timeout_ms: int | None = None,
) -> None:
    """Set `configs` of a group of the consumer protocol, and reset the keys in `delete` to the brokers' values."""
    await _alter_configs(
        admin,
        ConfigResourceType.GROUP,
        group_id,
        _alterations(configs, delete),
        validate_only=validate_only,
        timeout_ms=timeout_ms,
    )


async def describe_client_metrics(admin: AdminClient, name: str, *, timeout_ms: int | None = None) -> Configs:
    """Return every config of the client metrics: what clients are asked for, and which ones. Sorted by key."""
    return await _described_by_any(admin, ConfigResourceType.CLIENT_METRICS, name, timeout_ms)


async def alter_client_metrics(
    admin: AdminClient,
    name: str,
    configs: Mapping[str, str] | None = None,
    *,
    delete: Iterable[str] = (),
    validate_only: bool = False,
    timeout_ms: int | None = None,
) -> None:
    """Set `configs` of the client metrics, and reset the keys in `delete`: without any, nothing is asked for."""
    kind, alterations = ConfigResourceType.CLIENT_METRICS, _alterations(configs, delete)
    await _alter_configs(admin, kind, name, alterations, validate_only=validate_only, timeout_ms=timeout_ms)


async def _described_by_any(
    admin: AdminClient, resource_type: ConfigResourceType, name: str, timeout_ms: int | None
) -> Configs:
    request = _request(resource_type, name)
    response = await admin.calls.ask(DESCRIBE_CONFIGS, request, timeout_ms, _check_described)
    return list(response.results[0].configs)


async def _alter_configs(
    admin: AdminClient,
    resource_type: ConfigResourceType,
    name: str,
    alterations: list[AlterableConfig],
    *,
    validate_only: bool,
    timeout_ms: int | None,
) -> None:
    resource = AlterConfigsResource(resource_type=resource_type, resource_name=name, configs=tuple(alterations))
    request = IncrementalAlterConfigsRequest(resources=(resource,), validate_only=validate_only)

    def check_altered(response: IncrementalAlterConfigsResponse) -> None:
        _check_altered(response, f"{resource_type.name.lower()} {name!r}")

    await admin.calls.change(INCREMENTAL_ALTER_CONFIGS, lambda _: request, timeout_ms, check_altered)


def _check_altered(response: IncrementalAlterConfigsResponse, what: str) -> None:
    for result in response.responses:
        check(result.error_code, result.error_message or what)


def _alterations(configs: Mapping[str, str] | None, delete: Iterable[str]) -> list[AlterableConfig]:
    return _each(ConfigOperation.SET, configs or {}) + _each(ConfigOperation.DELETE, dict.fromkeys(delete))


def _each(operation: ConfigOperation, values: Mapping[str, str | None] | Mapping[str, str]) -> list[AlterableConfig]:
    return [AlterableConfig(name=key, config_operation=operation, value=value) for key, value in values.items()]


def _resource(resource_type: ConfigResourceType, name: str) -> DescribeConfigsResource:
    return DescribeConfigsResource(resource_type=resource_type, resource_name=name, configuration_keys=None)


def _request(resource_type: ConfigResourceType, name: str) -> DescribeConfigsRequest:
    return DescribeConfigsRequest(
        resources=(_resource(resource_type, name),), include_synonyms=True, include_documentation=True
    )


def _check_described(response: DescribeConfigsResponse) -> None:
    for described in response.results:
        check(described.error_code, described.error_message or repr(described.resource_name))
