"""Requests that replace all configs of a resource."""

from __future__ import annotations

from collections.abc import Mapping

from kraft.wire.schema.alter_configs import AlterableConfig, AlterConfigsRequest, AlterConfigsResource


def asked_to_replace(resource_type: int, name: str, configs: Mapping[str, str | None]) -> AlterConfigsRequest:
    wanted = tuple(AlterableConfig(name=key, value=value) for key, value in configs.items())
    resource = AlterConfigsResource(resource_type=resource_type, resource_name=name, configs=wanted)
    return AlterConfigsRequest(resources=(resource,), validate_only=False)
