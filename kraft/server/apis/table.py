"""The table of APIs, of both protocols. The rows are in one file for each family, under Kafka's names."""

from __future__ import annotations

from typing import Any, Final

from kraft.server.apis.acls import ACL_APIS
from kraft.server.apis.api import Api
from kraft.server.apis.brokers import BROKER_APIS
from kraft.server.apis.client_metrics import CLIENT_METRICS_APIS
from kraft.server.apis.cluster import CLUSTER_APIS
from kraft.server.apis.configs import CONFIG_APIS
from kraft.server.apis.groups import GROUP_APIS
from kraft.server.apis.login import LOGIN_APIS
from kraft.server.apis.records import RECORD_APIS
from kraft.server.apis.replicas import REPLICA_APIS
from kraft.server.apis.topics import TOPIC_APIS
from kraft.server.apis.transactions import TRANSACTION_APIS
from kraft.server.apis.users import USER_APIS

APIS: Final[tuple[Api[Any, Any], ...]] = (
    *RECORD_APIS,
    *TOPIC_APIS,
    *REPLICA_APIS,
    *CONFIG_APIS,
    *GROUP_APIS,
    *TRANSACTION_APIS,
    *BROKER_APIS,
    *CLUSTER_APIS,
    *CLIENT_METRICS_APIS,
    *USER_APIS,
    *ACL_APIS,
    *LOGIN_APIS,
)
