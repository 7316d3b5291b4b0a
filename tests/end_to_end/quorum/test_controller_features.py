"""A level of a feature is raised only when every controller is known to support it."""

from __future__ import annotations

import pytest

from kraft.client import Admin, Refusal
from kraft.testing import Cluster


def test_a_controller_that_is_down_keeps_levels_from_being_raised() -> None:
    roles = ["broker", "controller", "controller", "controller"]
    with Cluster(4, roles=roles) as cluster, Admin(cluster.bootstrap_servers) as admin:
        levels = {each.feature: each.finalized_level for each in admin.describe_features().features}
        assert admin.update_features(levels, validate_only=True) == {}
        cluster.node(4).kill()
        with pytest.raises(Refusal, match=r"controller 4@.* does not report which levels it supports \(connection"):
            admin.update_features(levels, validate_only=True)
