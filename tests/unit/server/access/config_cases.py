"""Cases of the APIs for configs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kraft.model.access import Operation
from kraft.wire.schema import alter_configs, describe_configs, incremental_alter_configs
from tests.unit.server.access.needs import (
    ALTER_CONFIGS,
    DESCRIBE_CONFIGS,
    GROUP,
    NONE,
    NOTHING,
    TOPIC,
    Case,
    Need,
    on_cluster,
    on_group,
    on_topic,
    whole,
)


def _configs(kind: Any, answers: str) -> Callable[[Any], Any]:
    def answer(request: Any) -> Any:
        module = kind
        if answers == "results":
            results: tuple[Any, ...] = tuple(
                describe_configs.DescribeConfigsResult(
                    error_code=NONE,
                    error_message=None,
                    resource_type=each.resource_type,
                    resource_name=each.resource_name,
                    configs=(),
                )
                for each in request.resources
            )
            return describe_configs.DescribeConfigsResponse(results=results)
        response = getattr(module, "AlterConfigsResponse", None) or module.IncrementalAlterConfigsResponse
        results = tuple(
            module.AlterConfigsResourceResponse(
                error_code=NONE,
                error_message=None,
                resource_type=each.resource_type,
                resource_name=each.resource_name,
            )
            for each in request.resources
        )
        return response(responses=results)

    return answer


def _resources(kind: Any, **more: Any) -> tuple[Any, ...]:
    """Return one of a topic, a broker, a logger, clients' metrics and a group."""
    named = ((2, TOPIC), (4, "1"), (8, "1"), (16, "m"), (32, GROUP))
    return tuple(kind(resource_type=number, resource_name=name, **more) for number, name in named)


def _config_needs(operation: Operation) -> tuple[tuple[Need, ...], ...]:
    return ((on_topic(operation),), (on_cluster(operation),), (on_group(operation),))


CONFIG_CASES: Final[dict[str, Case]] = {
    "DescribeConfigs": Case(
        describe_configs.DescribeConfigsRequest(
            resources=_resources(describe_configs.DescribeConfigsResource, configuration_keys=None)
        ),
        _configs(describe_configs, "results"),
        _config_needs(DESCRIBE_CONFIGS),
        "brokers, their loggers and clients' metrics belong to the cluster",
    ),
    "AlterConfigs": Case(
        alter_configs.AlterConfigsRequest(
            resources=_resources(alter_configs.AlterConfigsResource, configs=()), validate_only=False
        ),
        _configs(alter_configs, "responses"),
        _config_needs(ALTER_CONFIGS),
        "brokers, their loggers and clients' metrics belong to the cluster",
    ),
    "IncrementalAlterConfigs": Case(
        incremental_alter_configs.IncrementalAlterConfigsRequest(
            resources=_resources(incremental_alter_configs.AlterConfigsResource, configs=()), validate_only=False
        ),
        _configs(incremental_alter_configs, "responses"),
        _config_needs(ALTER_CONFIGS),
        "brokers, their loggers and clients' metrics belong to the cluster",
    ),
    "ListConfigResources": whole(NOTHING, on_cluster(DESCRIBE_CONFIGS)),
}
