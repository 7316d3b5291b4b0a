"""Users of the file of Kafka's nodes: `plain.sasl.jaas.config` makes them users of the cluster, once."""

from __future__ import annotations

from pathlib import Path

from kraft.model.errors import ErrorCode
from tests.support.kafka.login_cluster import LISTENER, LoginConnection, login_cluster
from tests.support.waiting import until

WRITTEN = "bob's own, with = and ;"


def logs_in(server: str, mechanism: str, user: str, password: str) -> bool:
    with LoginConnection(server) as connection:
        return connection.log_in(mechanism, user, password).error_code == ErrorCode.NONE


def test_users_of_the_file_can_log_in_and_a_password_that_was_changed_since_stays(tmp_path: Path) -> None:
    jaas = f'org.apache.kafka.common.security.plain.PlainLoginModule required user_bob="{WRITTEN}" user_carol="hers";'
    key = f"listener.name.{LISTENER.lower()}.plain.sasl.jaas.config"
    with login_cluster(tmp_path, 3, **{key: jaas}) as cluster:
        servers = cluster.kafka_bootstrap_servers.split(",")
        for server in servers:
            # At once: listeners open when the users exist.
            assert logs_in(server, "PLAIN", "bob", WRITTEN)
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            assert logs_in(servers[0], mechanism, "carol", "hers")
        cluster.set_password("bob", "another")
        cluster.local.stop()
        cluster.local.start()
        cluster.local.wait_ready()
        until(lambda: logs_in(servers[0], "PLAIN", "bob", "another"), "bob's new password was lost")
        assert not logs_in(servers[0], "PLAIN", "bob", WRITTEN)
    logs = "".join(each.read_text() for each in tmp_path.glob("node-*.log"))
    assert "users of the configuration file imported" in logs
    assert "they exist already, and the file does not change them" in logs
    assert "remove the line plain.sasl.jaas.config" in logs
    assert WRITTEN not in logs
    assert "hers" not in logs
