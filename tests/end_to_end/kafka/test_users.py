"""Users with SCRAM credentials: made by one tool, seen and removed by another, and kept when all nodes are killed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._scram import ScramMechanism, UserScramCredentialDeletion

from kraft.testing import Cluster
from tests.support.command_line import kraft, run_kraft
from tests.support.kafka.kafka_jars import kafka_jars, run_kafka_tool
from tests.support.waiting import until

# Fetching the jars may come first, once.
pytestmark = pytest.mark.timeout(300)

ITERATIONS: Final = 8_192


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3) as running:
        yield running


def kafka_configs(cluster: Cluster, *arguments: str) -> str:
    servers = ("--bootstrap-server", cluster.kafka_bootstrap_servers)
    finished = run_kafka_tool(kafka_jars(), "kafka.admin.ConfigCommand", *servers, *arguments)
    assert finished.code == 0, finished.output + finished.errors
    return finished.output


def users(cluster: Cluster) -> dict[str, list[str]]:
    """Return the mechanisms of each user."""
    listed: list[dict[str, Any]] = json.loads(kraft(cluster, "users", "list", "--output", "json"))
    return {user["user"]: [each["mechanism"] for each in user["mechanisms"]] for user in listed}


def until_users(cluster: Cluster, expected: dict[str, list[str]]) -> None:
    """Wait until the broker that a command asks knows them: it may be another than the one that was told."""
    until(lambda: users(cluster) == expected, f"the users did not become {expected}")


def test_users_of_kafkas_tool_of_a_client_and_of_kraft_are_the_same(cluster: Cluster) -> None:
    alice = ("--entity-type", "users", "--entity-name", "alice")
    password = f"SCRAM-SHA-256=[iterations={ITERATIONS},password=alice-secret]"
    assert "Completed updating" in kafka_configs(cluster, "--alter", *alice, "--add-config", password)
    until_users(cluster, {"alice": ["SCRAM-SHA-256"]})

    set_password = run_kraft(cluster, "users", "set-password", "bob", "--password-file", "-", stdin=b"bob-secret\n")
    assert set_password.returncode == 0, set_password.stderr
    until_users(cluster, {"alice": ["SCRAM-SHA-256"], "bob": ["SCRAM-SHA-256", "SCRAM-SHA-512"]})

    cluster.kill()
    cluster.start()
    cluster.wait_ready()
    until_users(cluster, {"alice": ["SCRAM-SHA-256"], "bob": ["SCRAM-SHA-256", "SCRAM-SHA-512"]})

    admin = AdminClient({"bootstrap.servers": cluster.kafka_bootstrap_servers})
    described = admin.describe_user_scram_credentials(["alice"])
    assert isinstance(described, dict), "one future for each user that is named"
    (info,) = described["alice"].result(30).scram_credential_infos
    assert (info.mechanism, info.iterations) == (ScramMechanism.SCRAM_SHA_256, ITERATIONS)
    assert f"SCRAM-SHA-256=iterations={ITERATIONS}" in kafka_configs(cluster, "--describe", *alice)

    deletion = UserScramCredentialDeletion("bob", ScramMechanism.SCRAM_SHA_512)
    admin.alter_user_scram_credentials([deletion])["bob"].result(30)
    until_users(cluster, {"alice": ["SCRAM-SHA-256"], "bob": ["SCRAM-SHA-256"]})
    with pytest.raises(KafkaException, match="RESOURCE_NOT_FOUND"):
        admin.alter_user_scram_credentials([deletion])["bob"].result(30)

    kraft(cluster, "users", "delete", "alice")
    kafka_configs(
        cluster, "--alter", "--entity-type", "users", "--entity-name", "bob", "--delete-config", "SCRAM-SHA-256"
    )
    until_users(cluster, {})


def test_a_password_or_a_user_that_is_missing_is_one_line(cluster: Cluster) -> None:
    for arguments, words in (
        (("set-password", "carol"), "there is no terminal to ask at"),
        (("set-password", "carol", "--password-file", "/nowhere"), "cannot be read"),
        (("delete", "carol"), "carol"),
    ):
        failed = run_kraft(cluster, "users", *arguments)
        assert failed.returncode != 0
        assert words in failed.stderr
        assert "Traceback" not in failed.stderr
