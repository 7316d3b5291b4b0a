"""Requests that describe and alter configs, and their responses. The numbers are Kafka's.

Source: KIP-133 (DescribeConfigs), KIP-226 (sources and synonyms), KIP-339 (IncrementalAlterConfigs).
"""

from __future__ import annotations

from enum import IntEnum

from msgspec import Struct, field

from kraft.model.errors import ErrorCode


class ConfigResourceType(IntEnum):
    """Kind of resource that has configs. A number that this version does not know is UNKNOWN."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32

    @classmethod
    def _missing_(cls, value: object) -> ConfigResourceType:
        return cls.UNKNOWN


class ConfigOperation(IntEnum):
    """Operation on one config; APPEND and SUBTRACT are for keys whose value is a list."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigSource(IntEnum):
    """Source of a value: the topic or group, dynamic broker configs, the broker's file, or the default."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_GROUP_CONFIG = 8

    @classmethod
    def _missing_(cls, value: object) -> ConfigSource:
        return cls.UNKNOWN


class ConfigType(IntEnum):
    """Type of a key's values."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9

    @classmethod
    def _missing_(cls, value: object) -> ConfigType:
        return cls.UNKNOWN


# --- altering ------------------------------------------------------------------------------------------------


class ConfigAlteration(Struct, frozen=True, kw_only=True):
    """Alteration of one config. `value` is None for DELETE, which returns the key to its default."""

    key: str
    operation: ConfigOperation
    value: str | None = None


class ResourceAlteration(Struct, frozen=True, kw_only=True):
    """Alterations of one topic or broker, all or none of which are made.

    With `replaces`, set keys that are not named return to their defaults.
    """

    resource_type: ConfigResourceType
    resource_name: str
    alterations: list[ConfigAlteration]
    replaces: bool = False


class IncrementalAlterConfigsRequest(Struct, frozen=True, kw_only=True):
    """Request to alter configs. Keys that are not named do not change, unless their resource has `replaces`."""

    resources: list[ResourceAlteration]
    timeout_ms: int
    validate_only: bool = False


class ResourceAlterationResult(Struct, frozen=True, kw_only=True):
    resource_type: ConfigResourceType
    resource_name: str
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str = ""


class IncrementalAlterConfigsResponse(Struct, frozen=True, kw_only=True):
    """One result per resource, in the request's order."""

    results: list[ResourceAlterationResult]


# --- describing ----------------------------------------------------------------------------------------------


class ConfigResource(Struct, frozen=True, kw_only=True):
    """Topic by name, or broker by id, whose configs to describe; without `keys`, all of them."""

    resource_type: ConfigResourceType
    resource_name: str
    keys: list[str] = field(default_factory=list)


class DescribeConfigsRequest(Struct, frozen=True, kw_only=True):
    resources: list[ConfigResource]
    include_synonyms: bool = False
    include_documentation: bool = False


class ConfigSynonym(Struct, frozen=True, kw_only=True):
    """Config that can supply the value of a key: its own name, its value and its source."""

    key: str
    value: str | None
    source: ConfigSource


class ConfigEntry(Struct, frozen=True, kw_only=True):
    """Config with its value in effect. `synonyms` are in order of precedence; the first supplies the value."""

    key: str
    value: str | None
    source: ConfigSource
    is_default: bool
    read_only: bool
    type: ConfigType
    is_sensitive: bool = False
    documentation: str = ""
    synonyms: list[ConfigSynonym] = field(default_factory=list)


class ResourceDescription(Struct, frozen=True, kw_only=True):
    """Configs of one resource, ordered by key."""

    resource_type: ConfigResourceType
    resource_name: str
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str = ""
    entries: list[ConfigEntry] = field(default_factory=list)


class DescribeConfigsResponse(Struct, frozen=True, kw_only=True):
    """One description per resource, in the request's order."""

    results: list[ResourceDescription]
