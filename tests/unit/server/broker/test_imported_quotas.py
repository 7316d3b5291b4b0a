"""Default quotas that the file names become quotas of the metadata, if these have none."""

from __future__ import annotations

from typing import Any, cast

from structlog.testing import capture_logs

from kraft.metadata.quota_decisions import alter_client_quotas
from kraft.model.config_types import INT64_MAX
from kraft.model.errors import ErrorCode, Refusal
from kraft.server.broker.imported_quotas import QuotaImport
from kraft.server.config.connection_settings import DefaultQuotas
from kraft.server.handlers.forwarding import Forwarder, IsApplied
from kraft.wire.schema.alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse
from tests.support.cluster_images import cluster
from tests.support.quotas import alteration, asked, subject

DEFAULT = subject({"client-id": None})


class Cluster:
    """Its metadata, and an active controller that does not answer the first `refusals` requests."""

    def __init__(self, refusals: int = 0) -> None:
        self.image = cluster(1)
        self.refusals = refusals

    async def decided(
        self, call: object, request: AlterClientQuotasRequest, is_applied: IsApplied[Any, Any]
    ) -> AlterClientQuotasResponse:
        if self.refusals:
            self.refusals -= 1
            raise Refusal(ErrorCode.REQUEST_TIMED_OUT, "no active controller")
        decision = alter_client_quotas(self.image, request)
        self.image = self.image.replay(decision.records)
        assert is_applied(self.image, request, decision.response)
        return decision.response

    async def import_quotas(self, named: DefaultQuotas) -> list[str]:
        with capture_logs() as logged:
            await QuotaImport(named, cast(Forwarder, self)).run()
        return [str(each["event"]) for each in logged]


async def test_a_default_is_set_where_there_is_none_and_never_changed() -> None:
    nodes = Cluster(refusals=2)
    assert await nodes.import_quotas(DefaultQuotas(producer=1_024)) == [
        "default quotas of the configuration file not imported",
        "default quotas of the configuration file imported",
    ]
    assert nodes.image.client_quotas[DEFAULT] == {"producer_byte_rate": 1_024}
    changed = alter_client_quotas(nodes.image, asked(alteration({"client-id": None}, producer_byte_rate=7)))
    nodes.image = nodes.image.replay(changed.records)
    both = DefaultQuotas(producer=1_024, consumer=9)
    assert await nodes.import_quotas(both) == ["default quotas of the configuration file imported"]
    assert nodes.image.client_quotas[DEFAULT] == {"producer_byte_rate": 7, "consumer_byte_rate": 9}
    assert await nodes.import_quotas(both) == [
        "default quotas exist already, those of the configuration file have no effect"
    ]


async def test_no_limit_sets_nothing() -> None:
    nodes = Cluster()
    assert await nodes.import_quotas(DefaultQuotas()) == []
    assert await nodes.import_quotas(DefaultQuotas(producer=INT64_MAX)) == []
    assert not nodes.image.client_quotas
