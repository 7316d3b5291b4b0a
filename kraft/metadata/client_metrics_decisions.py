"""Decisions that alter configs of client metrics: those of one request, which have limits together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kraft.metadata.client_metrics import (
    MATCH,
    MATCH_CHARACTERS_MAX,
    NAME_CHARACTERS_MAX,
    SUBSCRIPTIONS_MAX,
    check_client_metrics,
)
from kraft.metadata.features import require_client_metrics
from kraft.metadata.image import MetadataImage
from kraft.metadata.records import ClientMetricsConfigSet, MetadataRecord
from kraft.model.configs import ConfigOperation
from kraft.model.errors import ErrorCode, Refusal
from kraft.wire.schema.incremental_alter_configs import AlterableConfig, AlterConfigsResource


class ClientMetricsAlterations:
    """What the resources of one request alter."""

    def __init__(self, image: MetadataImage) -> None:
        self._image: Final = image
        self._new: set[str] = set()
        self._match_characters_left = MATCH_CHARACTERS_MAX

    def altered(self, resource: AlterConfigsResource) -> list[MetadataRecord]:
        """Return the records for one resource. Raises Refusal."""
        require_client_metrics(self._image, "altering client metrics")
        name, configs = resource.resource_name, resource.configs
        if not name:
            raise Refusal(ErrorCode.INVALID_REQUEST, "the name of the client metrics is empty: give them one")
        if len(name) > NAME_CHARACTERS_MAX:
            problem = f"the name of the client metrics has {len(name)} characters, and may have {NAME_CHARACTERS_MAX}"
            raise Refusal(ErrorCode.INVALID_REQUEST, problem)
        self._check_time(configs)
        # Deleted configs need not exist, as in Kafka.
        to_set = {each.name: _value(each) for each in configs if each.config_operation != ConfigOperation.DELETE}
        check_client_metrics(to_set)
        before = self._image.client_metrics.get(name, {})
        changed = {
            each.name: to_set.get(each.name) for each in configs if to_set.get(each.name) != before.get(each.name)
        }
        if to_set and not before:
            self._check_room(name)
        return [ClientMetricsConfigSet(name=name, key=key, value=value) for key, value in sorted(changed.items())]

    def _check_time(self, configs: Sequence[AlterableConfig]) -> None:
        self._match_characters_left -= sum(len(each.value or "") for each in configs if each.name == MATCH)
        if self._match_characters_left < 0:
            problem = f"more than {MATCH_CHARACTERS_MAX} characters of {MATCH} in one request: give shorter expressions"
            raise Refusal(ErrorCode.INVALID_CONFIG, f"{problem}, or alter fewer client metrics at a time")

    def _check_room(self, name: str) -> None:
        self._new.add(name)
        if len(self._image.client_metrics) + len(self._new) > SUBSCRIPTIONS_MAX:
            problem = f"there are {SUBSCRIPTIONS_MAX} client metrics already, and no more may be: delete some first"
            raise Refusal(ErrorCode.POLICY_VIOLATION, problem)


def _value(config: AlterableConfig) -> str:
    if config.config_operation != ConfigOperation.SET:
        problem = f"{config.name[:100]} of client metrics cannot be appended to or subtracted from: set all of it"
        raise Refusal(ErrorCode.INVALID_CONFIG, problem)
    assert config.value is not None, "checked before"
    return config.value
