"""Commands whose client a broker does not accept."""

from __future__ import annotations

import pytest

from kraft.client import AuthenticationFailed
from kraft.model.errors import ErrorCode
from tests.support.client.fake_cluster import FakeCluster
from tests.unit.cli.shell import Shell


@pytest.mark.parametrize("lacks_settings", [False, True])
def test_a_command_that_lacks_settings_of_security_says_where_they_go(
    kraft: Shell, cluster: FakeCluster, lacks_settings: bool
) -> None:
    error = AuthenticationFailed(ErrorCode.ILLEGAL_SASL_STATE, "it requires a login", lacks_settings=lacks_settings)
    cluster.brokers[1].reject(error)
    first, *more = kraft.fail("topics", "list").splitlines()
    assert first == "kraft: ILLEGAL_SASL_STATE: it requires a login"
    where = "kraft: Settings of security, such as security.protocol, go into a file: give it as --command-config FILE"
    assert more == ([where] if lacks_settings else [])
