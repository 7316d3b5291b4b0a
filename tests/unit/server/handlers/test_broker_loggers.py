from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from kraft.model.configs import ConfigOperation, ConfigResourceType, ConfigSource
from kraft.model.errors import ErrorCode, Refusal
from kraft.server.handlers import broker_loggers
from kraft.server.handlers.broker_loggers import altering, described
from kraft.wire.schema.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

BROKER = 3
MODULE = "kraft.server.handlers.broker_loggers"


@pytest.fixture(autouse=True)
def _levels() -> Iterator[None]:
    """Put the levels back that a test has changed."""
    names = (None, "kraft", "kraft.server", MODULE)
    before = [(logging.getLogger(name), logging.getLogger(name).level) for name in names]
    logging.getLogger().setLevel(logging.INFO)
    yield
    for logger, level in before:
        logger.setLevel(level)


def alteration(name: str, value: str | None, operation: int = ConfigOperation.SET) -> AlterableConfig:
    return AlterableConfig(name=name, config_operation=operation, value=value)


def of_loggers(*alterations: AlterableConfig, broker: str = str(BROKER)) -> AlterConfigsResource:
    return AlterConfigsResource(
        resource_type=ConfigResourceType.BROKER_LOGGER, resource_name=broker, configs=alterations
    )


TOPIC = AlterConfigsResource(resource_type=ConfigResourceType.TOPIC, resource_name="orders", configs=())


class Controller:
    """Takes what is forwarded to it."""

    def __init__(self) -> None:
        self.forwarded: list[AlterConfigsResource] = []
        self.refuses = False

    async def __call__(self, request: IncrementalAlterConfigsRequest) -> IncrementalAlterConfigsResponse:
        if self.refuses:
            raise Refusal(ErrorCode.NOT_CONTROLLER, "no controller is active")
        self.forwarded += request.resources
        return IncrementalAlterConfigsResponse(
            responses=tuple(
                AlterConfigsResourceResponse(
                    error_code=0, error_message=None, resource_type=each.resource_type, resource_name=each.resource_name
                )
                for each in request.resources
            )
        )


async def altered(
    *resources: AlterConfigsResource, controller: Controller | None = None, validate_only: bool = False
) -> list[tuple[int, str]]:
    """Return the code and the message for each resource."""
    handle = altering(BROKER, controller or Controller())
    request = IncrementalAlterConfigsRequest(resources=resources, validate_only=validate_only)
    return [(each.error_code, each.error_message or "") for each in (await handle(request)).responses]


def level(name: str) -> str | None:
    """The level in effect, as clients see it."""
    return {each.name: each.value for each in described(str(BROKER), BROKER)}.get(name)


def test_each_module_with_events_is_described_with_the_level_in_effect() -> None:
    entries = {each.name: each for each in described(str(BROKER), BROKER)}
    assert entries["root"].value == entries[MODULE].value == "INFO"
    assert entries[MODULE].config_source == ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG
    assert {"kraft", "kraft.server", "kraft.server.handlers"} <= entries.keys()
    assert list(entries) == sorted(entries)


async def test_a_level_is_set_and_deleted_for_a_module_and_for_a_package() -> None:
    assert await altered(of_loggers(alteration(MODULE, "DEBUG"))) == [(0, "")]
    assert (level(MODULE), level("root")) == ("DEBUG", "INFO")
    await altered(of_loggers(alteration("kraft.server", "ERROR"), alteration(MODULE, None, ConfigOperation.DELETE)))
    assert (level(MODULE), level("kraft.server"), level("root")) == ("ERROR", "ERROR", "INFO")
    await altered(of_loggers(alteration("kraft.server", None, ConfigOperation.DELETE), alteration("root", "WARN")))
    assert (level(MODULE), level("kraft.server"), level("root")) == ("WARN", "WARN", "WARN")


async def test_other_resources_of_a_request_go_to_the_controller() -> None:
    controller = Controller()
    assert await altered(TOPIC, of_loggers(alteration(MODULE, "DEBUG")), controller=controller) == [(0, ""), (0, "")]
    assert controller.forwarded == [TOPIC]
    await altered(of_loggers(alteration(MODULE, "INFO")), controller=controller)
    assert controller.forwarded == [TOPIC]


async def test_nothing_is_altered_if_the_controller_refuses_the_rest() -> None:
    controller = Controller()
    controller.refuses = True
    with pytest.raises(Refusal):
        await altered(TOPIC, of_loggers(alteration(MODULE, "DEBUG")), controller=controller)
    assert level(MODULE) == "INFO"


@pytest.mark.parametrize(
    ("resource", "code", "words"),
    [
        (
            of_loggers(alteration(MODULE, "LOUD")),
            ErrorCode.INVALID_CONFIG,
            "'LOUD' is no level: levels are TRACE, DEBUG",
        ),
        (of_loggers(alteration(MODULE, None)), ErrorCode.INVALID_CONFIG, "'' is no level"),
        (of_loggers(alteration("kafka.server", "INFO")), ErrorCode.INVALID_CONFIG, "there is no logger 'kafka.server'"),
        (of_loggers(alteration("os", "INFO")), ErrorCode.INVALID_CONFIG, "there is no logger 'os'"),
        (
            of_loggers(alteration("root", None, ConfigOperation.DELETE)),
            ErrorCode.INVALID_REQUEST,
            "the level of root cannot be deleted",
        ),
        (
            of_loggers(alteration(MODULE, "INFO", ConfigOperation.APPEND)),
            ErrorCode.INVALID_REQUEST,
            "a level is no list",
        ),
        (of_loggers(broker="4"), ErrorCode.INVALID_REQUEST, "this is broker 3, which has only its own loggers"),
    ],
)
async def test_what_cannot_be_set_is_refused(resource: AlterConfigsResource, code: ErrorCode, words: str) -> None:
    ((answered, message),) = await altered(resource)
    assert answered == code
    assert message.startswith(words)


async def test_a_refused_resource_changes_nothing_and_validation_neither() -> None:
    await altered(of_loggers(alteration(MODULE, "DEBUG"), alteration("root", "LOUD")))
    assert level(MODULE) == "INFO"
    assert await altered(of_loggers(alteration(MODULE, "DEBUG")), validate_only=True) == [(0, "")]
    assert level(MODULE) == "INFO"
    twice = await altered(of_loggers(alteration(MODULE, "DEBUG")), of_loggers(alteration(MODULE, "WARN")))
    assert [code for code, _ in twice] == [ErrorCode.INVALID_REQUEST] * 2
    assert level(MODULE) == "INFO"


def test_another_broker_is_not_described() -> None:
    with pytest.raises(Refusal, match="this is broker 3"):
        list(described("4", BROKER))


async def test_who_silences_the_log_is_in_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[Any] = []

    class Log:
        def info(self, event: str, **facts: str) -> None:
            if logging.getLogger(MODULE).isEnabledFor(logging.INFO):
                written.append((event, facts["logger"], facts["level"]))

    monkeypatch.setattr(broker_loggers, "log", Log())
    await altered(of_loggers(alteration("root", "FATAL")))
    await altered(of_loggers(alteration(MODULE, "DEBUG")))
    await altered(of_loggers(alteration(MODULE, None, ConfigOperation.DELETE)))
    await altered(of_loggers(alteration("root", "INFO")))
    assert written == [
        ("logger level changed", "root", "FATAL"),
        ("logger level changed", MODULE, "DEBUG"),
        ("logger level changed", MODULE, "that of the logger above"),
        ("logger level changed", "root", "INFO"),
    ]
