"""For each row of the table of APIs: a request, everything that it needs, and what one is told who lacks it."""

from __future__ import annotations

from typing import Any, Final

from kraft.server.apis.api import Api, VisibleTo
from kraft.server.apis.table import APIS
from tests.unit.server.access.cluster_cases import CLUSTER_CASES
from tests.unit.server.access.config_cases import CONFIG_CASES
from tests.unit.server.access.group_cases import GROUP_CASES
from tests.unit.server.access.needs import Case
from tests.unit.server.access.record_cases import RECORD_CASES
from tests.unit.server.access.replica_cases import REPLICA_CASES
from tests.unit.server.access.topic_cases import TOPIC_CASES
from tests.unit.server.access.transaction_cases import TRANSACTION_CASES

CASES: Final[dict[str, Case]] = {
    **RECORD_CASES,
    **TOPIC_CASES,
    **REPLICA_CASES,
    **CONFIG_CASES,
    **GROUP_CASES,
    **TRANSACTION_CASES,
    **CLUSTER_CASES,
}


def name_of(api: Api[Any, Any]) -> str:
    return api.call.name if api.call is not None else repr(api.key)


ROWS: Final = {
    # Over gRPC only nodes may write markers, over Kafka's protocol whoever has the permission.
    name_of(api): api
    for api in APIS
    if api.visible_to is VisibleTo.ANYBODY or api.key is not None
}
