"""Asking for configs and altering them, as values. The numbers are Kafka's.

Source: KIP-133 (DescribeConfigs), KIP-226 (sources and synonyms), KIP-339 (IncrementalAlterConfigs).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

from kraft.model.errors import ErrorCode


class ConfigResourceType(IntEnum):
    """What has configs. A number that this version does not know is UNKNOWN."""

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
    """APPEND and SUBTRACT are for keys whose value is a list."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigSource(IntEnum):
    """Where a value comes from: the topic itself, the broker's file, or nobody said anything."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5

    @classmethod
    def _missing_(cls, value: object) -> ConfigSource:
        return cls.UNKNOWN


class ConfigType(IntEnum):
    """What kind of value a key takes."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigAlteration:
    """`value` is None for DELETE, which takes the key back to its default."""

    key: str
    operation: ConfigOperation
    value: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceAlteration:
    """Of one topic or broker: all of it is done, or nothing.

    With `replaces`, keys that are set and not named go back to their defaults.
    """

    resource_type: ConfigResourceType
    resource_name: str
    alterations: list[ConfigAlteration]
    replaces: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class IncrementalAlterConfigsRequest:
    """Keys that are not named stay as they are, unless their resource is replaced."""

    resources: list[ResourceAlteration]
    timeout_ms: int
    validate_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceAlterationResult:
    resource_type: ConfigResourceType
    resource_name: str
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class IncrementalAlterConfigsResponse:
    """One result a resource, in the request's order."""

    results: list[ResourceAlterationResult]


# --- describing ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigResource:
    """A topic by its name, or a broker by its id. No keys: all of them."""

    resource_type: ConfigResourceType
    resource_name: str
    keys: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeConfigsRequest:
    resources: list[ConfigResource]
    include_synonyms: bool = False
    include_documentation: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigSynonym:
    """A key that could say the value, under the name it has there, and what it says."""

    key: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigEntry:
    """A key with the value in effect. The first of `synonyms` is where that comes from; those after it would follow."""

    key: str
    value: str | None
    source: ConfigSource
    is_default: bool
    read_only: bool
    type: ConfigType
    is_sensitive: bool = False
    documentation: str = ""
    synonyms: list[ConfigSynonym] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceDescription:
    """`entries` by key, in alphabetical order."""

    resource_type: ConfigResourceType
    resource_name: str
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str = ""
    entries: list[ConfigEntry] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeConfigsResponse:
    """One description a resource, in the request's order."""

    results: list[ResourceDescription]
