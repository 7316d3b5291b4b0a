"""Levels of this process' loggers, which are changed while it runs and are forgotten when it ends. Source: KIP-412.

A logger is a module, or a package for all its modules without a level of their own. So they are not of the cluster's
metadata: each broker describes and alters its own.
"""

from __future__ import annotations

import logging
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import structlog

from kraft.metadata.config_decisions import resource_responses
from kraft.model.configs import ConfigOperation, ConfigResourceType, ConfigSource, ConfigType
from kraft.model.errors import ErrorCode, Refusal
from kraft.rpc.call import Handler
from kraft.wire.declaration import replace
from kraft.wire.schema.describe_configs import DescribeConfigsResourceResult
from kraft.wire.schema.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

log = structlog.get_logger()
_OWN: Final = logging.getLogger(__name__)
"""The logger that decides whether what this module logs is heard."""

LEVELS: Final[Mapping[str, int]] = {
    "TRACE": logging.DEBUG,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}
"""Levels by Kafka's names; TRACE is as DEBUG here."""

ROOT: Final = "root"
_PACKAGE: Final = "kraft"

_NAMES: Final = {level: name for name, level in LEVELS.items()}

AlterConfigs = Handler[IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse]


def described(broker_name: str, node_id: int) -> Iterator[DescribeConfigsResourceResult]:
    """Yield each logger with the level in effect. Raises Refusal unless this broker is named."""
    _check_broker(broker_name, node_id)
    for name in sorted(_with_events()):
        yield DescribeConfigsResourceResult(
            name=name,
            value=_NAMES.get(_logger(name).getEffectiveLevel(), "INFO"),
            read_only=False,
            config_source=ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG,
            is_sensitive=False,
            synonyms=(),
            config_type=ConfigType.UNKNOWN,
            documentation=None,
        )


def altering(node_id: int, others: AlterConfigs) -> AlterConfigs:
    """Return the handler that alters this broker's loggers here, and leaves other resources to `others`."""

    async def handle(request: IncrementalAlterConfigsRequest) -> IncrementalAlterConfigsResponse:
        elsewhere = tuple(each for each in request.resources if not _is_of_loggers(each))
        if len(elsewhere) == len(request.resources):
            return await others(request)
        answers: list[AlterConfigsResourceResponse] = []
        if elsewhere:
            # First: if it is refused as a whole, nothing is altered here either.
            answers += (await others(replace(request, resources=elsewhere))).responses
        here = [each for each in request.resources if _is_of_loggers(each)]
        refusals = _altered(here, node_id, validate_only=request.validate_only)
        answers += resource_responses(AlterConfigsResourceResponse, here, refusals)
        return IncrementalAlterConfigsResponse(responses=tuple(answers))

    return handle


def _is_of_loggers(resource: AlterConfigsResource) -> bool:
    return resource.resource_type == ConfigResourceType.BROKER_LOGGER


def _altered(resources: Sequence[AlterConfigsResource], node_id: int, *, validate_only: bool) -> list[Refusal | None]:
    named = Counter(each.resource_name for each in resources)
    refusals: list[Refusal | None] = []
    for resource in resources:
        try:
            if named[resource.resource_name] > 1:
                raise Refusal(
                    ErrorCode.INVALID_REQUEST, "the request names this broker's loggers twice: name them once"
                )
            _check_broker(resource.resource_name, node_id)
            levels = {each.name: _level(each) for each in resource.configs}
        except Refusal as refusal:
            refusals.append(refusal)
            continue
        refusals.append(None)
        for name, level in {} if validate_only else levels.items():
            _change(name, level)
    return refusals


def _change(name: str, level: int) -> None:
    facts = {"logger": name, "level": _NAMES.get(level, "that of the logger above")}
    was_heard = _OWN.isEnabledFor(logging.INFO)
    if was_heard:
        # Before: afterwards this line may be among those that are silenced.
        log.info("logger level changed", **facts)
    _logger(name).setLevel(level)
    if not was_heard:
        log.info("logger level changed", **facts)


def _check_broker(name: str, node_id: int) -> None:
    if name != str(node_id):
        problem = f"this is broker {node_id}, which has only its own loggers: ask broker '{name[:100]}'"
        raise Refusal(ErrorCode.INVALID_REQUEST, problem)


def _level(alteration: AlterableConfig) -> int:
    """Return the level to set. Raises Refusal."""
    name = alteration.name
    if not _exists(name):
        problem = (
            f"there is no logger '{name[:100]}': loggers are {ROOT}, and modules and packages such as kraft.server"
        )
        raise Refusal(ErrorCode.INVALID_CONFIG, problem)
    match alteration.config_operation:
        case ConfigOperation.SET:
            if (alteration.value or "") not in LEVELS:
                value = (alteration.value or "")[:100]
                raise Refusal(ErrorCode.INVALID_CONFIG, f"'{value}' is no level: levels are {', '.join(LEVELS)}")
            return LEVELS[alteration.value or ""]
        case ConfigOperation.DELETE if name == ROOT:
            raise Refusal(ErrorCode.INVALID_REQUEST, f"the level of {ROOT} cannot be deleted: set it")
        case ConfigOperation.DELETE:
            return logging.NOTSET
        case _:
            raise Refusal(ErrorCode.INVALID_REQUEST, "a level is no list: set or delete it")


def _exists(name: str) -> bool:
    return name == ROOT or (name in sys.modules and name.partition(".")[0] == _PACKAGE)


def _with_events() -> set[str]:
    """Return the root logger, the modules that have events, and their packages: Kafka's tool alters only these."""
    found = {ROOT}
    # A copy, because modules may be imported in other threads meanwhile. A logger of structlog is only looked at: who
    # first asks for one of its attributes gives it a name.
    for name, module in list(sys.modules.items()):
        if name.startswith(f"{_PACKAGE}.") and isinstance(getattr(module, "log", None), (type(log), logging.Logger)):
            while name:
                found.add(name)
                name = name.rpartition(".")[0]
    return found


def _logger(name: str) -> logging.Logger:
    return logging.getLogger(None if name == ROOT else name)
