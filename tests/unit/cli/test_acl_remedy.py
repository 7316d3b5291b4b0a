from __future__ import annotations

import pytest

from kraft.cli.acls.remedy import remedy

ALLOW = "kraft acls create --allow-principal User:anna"


@pytest.mark.parametrize(
    ("missing", "command", "group", "options"),
    [
        ("describe permission for topic 'orders'", "produce", None, "--producer --topic orders"),
        ("describe permission for topic 'orders'", "consume", "g", "--consumer --group g --topic orders"),
        ("read permission for topic 'orders'", "consume", None, "--operation read --operation describe --topic orders"),
        ("describe permission for group 'g 2'", "consume", "g 2", "--operation read --group 'g 2'"),
        ("describe configs permission for topic 'a'", "describe", None, "--operation describe-configs --topic a"),
        ("write permission for transactional id 't'", "abort", None, "--operation write --transactional-id t"),
        ("alter permission for the cluster", "create", None, "--operation alter --cluster"),
    ],
)
def test_the_command_that_allows_it_can_be_typed(missing: str, command: str, group: str | None, options: str) -> None:
    message = f"GROUP_AUTHORIZATION_FAILED: group g2: User:anna has no {missing}"
    assert remedy(message, command, group) == f"{ALLOW} {options}"


def test_names_of_principals_are_quoted_and_other_errors_have_no_remedy() -> None:
    refused = "TOPIC_AUTHORIZATION_FAILED: User:CN=a b,O=c has no read permission for topic 't'"
    assert remedy(refused, "offsets", None) == (
        "kraft acls create --allow-principal 'User:CN=a b,O=c' --operation read --topic t"
    )
    assert remedy("UNKNOWN_TOPIC_OR_PARTITION: there is no topic 't'", "produce", None) == ""
