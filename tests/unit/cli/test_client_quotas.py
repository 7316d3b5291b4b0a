from __future__ import annotations

import json

from tests.unit.cli.shell import Shell


def test_quotas_are_set_and_described_in_kafkas_words(kraft: Shell) -> None:
    of_clients = ("--entity-type", "clients", "--entity-name", "loader")
    assert kraft.succeed("configs", "alter", *of_clients, "--add-config", "producer_byte_rate=1024") == (
        "Completed updating config for client-id 'loader'.\n"
    )
    assert kraft.err == ""
    both = ("--user", "anna", "--client", "loader")
    setting = ("--add-config", "consumer_byte_rate=5,request_percentage=12.5")
    kraft.succeed("configs", "alter", *both, *setting)
    kraft.succeed("configs", "alter", "--ip-defaults", "--add-config", "connection_creation_rate=9")
    assert kraft.err == (
        "Warning: connection_creation_rate holds for listeners of Kafka's protocol; connections to GRPC listeners are "
        "not counted.\n"
    )
    kraft.succeed(
        "configs", "alter", "--entity-type", "users", "--entity-default", "--add-config", "producer_byte_rate=1"
    )
    assert kraft.succeed("configs", "describe", *of_clients) == (
        "Quota configs for client-id 'loader' are producer_byte_rate=1024.0\n"
    )
    assert kraft.err == (
        "Each broker enforces these quotas by itself: of several brokers, a client may use as much each.\n"
    )
    assert kraft.succeed("configs", "describe", *both) == (
        "Quota configs for user-principal 'anna', client-id 'loader' are consumer_byte_rate=5.0, "
        "request_percentage=12.5\n"
    )
    assert kraft.succeed("configs", "describe", "--entity-type", "ips") == (
        "Quota configs for the default ip are connection_creation_rate=9.0\n"
    )
    assert kraft.succeed("configs", "describe", "--entity-type", "users") == (
        "Quota configs for the default user-principal are producer_byte_rate=1.0\n"
    )
    kraft.succeed("configs", "alter", *both, "--delete-config", "consumer_byte_rate")
    assert kraft.err == ""
    again = ("configs", "alter", *both, "--add-config", "request_percentage=12.5", "--output", "json")
    assert json.loads(kraft.succeed(*again))["enforced"] is True
    described = json.loads(kraft.succeed("configs", "describe", *both, "--output", "json"))
    assert described == [{"entity": {"client-id": "loader", "user": "anna"}, "quotas": {"request_percentage": 12.5}}]
    assert "there is no quota 'retention.ms' for such an entity" in kraft.fail(
        "configs", "alter", "--user", "anna", "--add-config", "retention.ms=1"
    )


def test_the_quotas_of_one_client_are_told_with_the_entries_that_set_them(kraft: Shell) -> None:
    for options in (
        ("--user", "anna", "--client", "loader", "--add-config", "producer_byte_rate=1024"),
        ("--client-defaults", "--add-config", "producer_byte_rate=7,request_percentage=50"),
        ("--user-defaults", "--add-config", "consumer_byte_rate=9"),
        ("--ip-defaults", "--add-config", "connection_creation_rate=3"),
    ):
        kraft.succeed("quotas", "alter", *options)
    assert kraft.succeed("quotas", "effective", "--user", "anna", "--client", "loader", "--ip", "10.0.0.7") == (
        "Quota                     Value   Set for\n"
        "consumer_byte_rate        9.0     the default user-principal\n"
        "producer_byte_rate        1024.0  user-principal 'anna', client-id 'loader'\n"
        "request_percentage        50.0    the default client-id\n"
        "connection_creation_rate  3.0     the default ip\n"
    )
    assert "by itself" in kraft.err
    anonymous = json.loads(kraft.succeed("quotas", "effective", "--output", "json"))
    assert anonymous == [{"key": "consumer_byte_rate", "value": 9.0, "entity": {"user": None}}]
    assert kraft.succeed("quotas", "describe").count("Quota configs for") == 4
    assert kraft.succeed("quotas", "describe", "--client-defaults") == (
        "Quota configs for the default client-id are producer_byte_rate=7.0, request_percentage=50.0\n"
    )
    assert kraft.run("quotas", "alter", "--add-config", "producer_byte_rate=1") == 2
    assert "no entity is given" in kraft.err
    for value in ("0", "-1", "1.5", "nan", "1e30"):
        assert "expected" in kraft.fail(
            "quotas", "alter", "--user", "anna", "--add-config", f"producer_byte_rate={value}"
        )


def test_a_user_named_as_in_acls_is_warned_of_and_no_quota_is_said_so(kraft: Shell) -> None:
    warning = "Warning: a quota names a user without User: and holds for 'User:anna' only: is it anna?\n"
    kraft.succeed("quotas", "alter", "--user", "User:anna", "--add-config", "producer_byte_rate=1024")
    assert kraft.err == warning
    assert kraft.succeed("quotas", "effective", "--user", "anna") == ""
    assert kraft.err == "no quota holds for this client\n"
    kraft.succeed("quotas", "effective", "--user", "User:anna")
    assert kraft.err.startswith(warning)


def test_a_password_among_quotas_is_answered_with_the_command_for_passwords_and_not_shown(kraft: Shell) -> None:
    of_user = ("--entity-type", "users", "--entity-name", "alice")
    for change in (("--add-config", "SCRAM-SHA-256=[password=secret]"), ("--delete-config", "SCRAM-SHA-256")):
        assert kraft.run("configs", "alter", *of_user, *change) == 2
        assert "kraft users set-password NAME --mechanism SCRAM-SHA-256" in kraft.err
        assert "secret" not in kraft.err
