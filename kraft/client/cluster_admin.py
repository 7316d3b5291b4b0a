"""The part of the admin client for threads that is about brokers, features, quotas and the quorum."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kraft.client.aio.admin import Admin as AsyncAdmin
from kraft.client.loop_thread import LoopThread
from kraft.model.brokers import BrokerActionResult, BrokerDescription
from kraft.model.client_quotas import QuotaDescription, QuotaEntity, QuotaFilter
from kraft.model.describe_quorum import QuorumDescription
from kraft.model.features import DescribeFeaturesResponse


class ClusterAdmin:
    """What an `Admin` can do besides topics, records and configs."""

    _admin: AsyncAdmin
    _thread: LoopThread

    def describe_brokers(
        self, broker_ids: Iterable[int] = (), *, timeout_ms: int | None = None
    ) -> list[BrokerDescription]:
        """Registered brokers by id, whether in service or not; all when none is named. Raises for a missing one."""
        return self._thread.run(self._admin.describe_brokers(list(broker_ids), timeout_ms=timeout_ms))

    def fence_broker(self, broker_id: int, *, force: bool = False, timeout_ms: int | None = None) -> BrokerActionResult:
        """Takes a broker out of service until `unfence_broker`, over restarts of it and of the whole cluster.

        Raises the Refusal when partitions would be left without a leader in sync and `force` is not set.
        """
        return self._thread.run(self._admin.fence_broker(broker_id, force=force, timeout_ms=timeout_ms))

    def unfence_broker(self, broker_id: int, *, timeout_ms: int | None = None) -> BrokerActionResult:
        """Lets a broker back into service, where it is as soon as it has caught up."""
        return self._thread.run(self._admin.unfence_broker(broker_id, timeout_ms=timeout_ms))

    def unregister_broker(self, broker_id: int, *, timeout_ms: int | None = None) -> BrokerActionResult:
        """Forgets a broker that is gone for good. Raises the Refusal for one that runs or that holds replicas."""
        return self._thread.run(self._admin.unregister_broker(broker_id, timeout_ms=timeout_ms))

    def describe_features(self, *, timeout_ms: int | None = None) -> DescribeFeaturesResponse:
        """The levels of features that the cluster acts on, and those that all of its brokers support."""
        return self._thread.run(self._admin.describe_features(timeout_ms=timeout_ms))

    def update_features(
        self, levels: Mapping[str, int], *, validate_only: bool = False, timeout_ms: int | None = None
    ) -> dict[str, int]:
        """Takes the cluster to these levels, all or none, for good. Returns those that were at another level before."""
        return self._thread.run(self._admin.update_features(levels, validate_only=validate_only, timeout_ms=timeout_ms))

    def describe_client_quotas(
        self, filters: Iterable[QuotaFilter] = (), *, strict: bool = False, timeout_ms: int | None = None
    ) -> list[QuotaDescription]:
        """Quotas of the entities that match every filter; with `strict`, of those that have no part beside."""
        return self._thread.run(self._admin.describe_client_quotas(list(filters), strict=strict, timeout_ms=timeout_ms))

    def alter_client_quotas(
        self,
        entity: Sequence[QuotaEntity],
        quotas: Mapping[str, float | None],
        *,
        validate_only: bool = False,
        timeout_ms: int | None = None,
    ) -> int:
        """Sets quotas of one entity; None takes one away. They are kept, and not enforced yet.

        Returns how many have another value now, or would have.
        """
        return self._thread.run(
            self._admin.alter_client_quotas(entity, quotas, validate_only=validate_only, timeout_ms=timeout_ms)
        )

    def describe_quorum(self, *, timeout_ms: int | None = None) -> QuorumDescription:
        """The metadata quorum as its leader sees it."""
        return self._thread.run(self._admin.describe_quorum(timeout_ms=timeout_ms))
