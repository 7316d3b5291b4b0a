"""Cases of the APIs for the cluster, its brokers and its users."""

from __future__ import annotations

from typing import Final

from kraft.wire.schema import describe_cluster
from tests.unit.server.access.needs import (
    ALTER,
    ALTER_CONFIGS,
    DESCRIBE,
    DESCRIBE_CONFIGS,
    NONE,
    NOTHING,
    Case,
    on_cluster,
    whole,
)

CLUSTER_CASES: Final[dict[str, Case]] = {
    "DescribeBrokers": whole(NOTHING, on_cluster(DESCRIBE)),
    "DescribeClients": whole(NOTHING, on_cluster(DESCRIBE)),
    "FenceBroker": whole(NOTHING, on_cluster(ALTER)),
    "UnfenceBroker": whole(NOTHING, on_cluster(ALTER)),
    "UnregisterBroker": whole(NOTHING, on_cluster(ALTER)),
    "DescribeClientQuotas": whole(NOTHING, on_cluster(DESCRIBE_CONFIGS)),
    "AlterClientQuotas": whole(NOTHING, on_cluster(ALTER_CONFIGS)),
    "UpdateFeatures": whole(NOTHING, on_cluster(ALTER)),
    "<ApiKey.DESCRIBE_CLUSTER: 60>": Case(
        describe_cluster.DescribeClusterRequest(include_cluster_authorized_operations=True),
        lambda _: describe_cluster.DescribeClusterResponse(error_code=NONE, cluster_id="c", brokers=()),
        (),
        "anybody may; the operations on the cluster are those of the client, none without DESCRIBE",
    ),
    "<ApiKey.DESCRIBE_QUORUM: 55>": whole(NOTHING, on_cluster(DESCRIBE)),
    "DescribeQuorum": whole(NOTHING, on_cluster(DESCRIBE)),
    "DescribeAcls": whole(NOTHING, on_cluster(DESCRIBE)),
    "CreateAcls": whole(NOTHING, on_cluster(ALTER)),
    "DeleteAcls": whole(NOTHING, on_cluster(ALTER)),
    "DescribeUserScramCredentials": whole(NOTHING, on_cluster(DESCRIBE)),
    "AlterUserScramCredentials": whole(NOTHING, on_cluster(ALTER)),
}
