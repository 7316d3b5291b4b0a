"""Kafka's numbers in the messages that describe and alter configs.

Source: KIP-133 (DescribeConfigs), KIP-226 (sources and synonyms), KIP-339 (IncrementalAlterConfigs).
"""

from __future__ import annotations

from enum import IntEnum


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
    """Source of a value: the resource itself, dynamic broker configs, the broker's file, or the default."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    DYNAMIC_CLIENT_METRICS_CONFIG = 7
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
