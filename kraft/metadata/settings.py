"""What operators set: feature levels, configs of brokers, groups and client metrics, client quotas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, assert_never

from kraft.metadata.records import (
    BrokerConfigSet,
    ClientMetricsConfigSet,
    ClientQuotaSet,
    FeatureLevelSet,
    GroupConfigSet,
    QuotaEntity,
    SettingRecord,
)
from kraft.metadata.small_maps import with_setting

if TYPE_CHECKING:
    from kraft.metadata.image import MetadataImage

QuotaSubject = tuple[QuotaEntity, ...]
"""The subject of a quota: a user, a client id, both, or an IP address, ordered by type."""


class SettingsDraft:
    """The settings while records are replayed. The maps that it holds one after the other do not change."""

    def __init__(self, before: MetadataImage) -> None:
        self.features: Mapping[str, int] = before.features
        self.broker_configs = before.broker_configs
        self.group_configs = before.group_configs
        self.client_metrics = before.client_metrics
        self.client_quotas: Mapping[QuotaSubject, Mapping[str, float]] = before.client_quotas

    def apply(self, record: SettingRecord) -> None:
        match record:
            case FeatureLevelSet():
                self.features = {**self.features, record.feature: record.level}
            case BrokerConfigSet():
                self.broker_configs = with_setting(self.broker_configs, record.broker, record.key, record.value)
            case GroupConfigSet():
                self.group_configs = with_setting(self.group_configs, record.group_id, record.key, record.value)
            case ClientMetricsConfigSet():
                self.client_metrics = with_setting(self.client_metrics, record.name, record.key, record.value)
            case ClientQuotaSet():
                subject = tuple(record.entity)
                self.client_quotas = with_setting(self.client_quotas, subject, record.key, record.value)
            case _:
                assert_never(record)
