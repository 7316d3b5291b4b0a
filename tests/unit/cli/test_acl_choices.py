from __future__ import annotations

from dataclasses import replace

import pytest
import typer

from kraft.access.purposes import entries
from kraft.cli.acls.choices import Actions, Holders, Resources, holders, operations, wanted_operations
from kraft.model.access import Operation, PatternType, PermissionType, ResourceType
from tests.support.acl_entries import entry

NOTHING, TOPIC = Resources(), Resources(topics=["orders"])
PLAIN = Actions()


def said(resources: Resources, actions: Actions) -> set[tuple[str, str, str]]:
    return {
        (resource_type.name, name, operation.name)
        for (resource_type, name), operation in wanted_operations(resources, actions)
    }


def test_a_producer_gets_what_kafkas_tool_gives_it() -> None:
    named = replace(TOPIC, transactional_ids=["tx"])
    topics = {("TOPIC", "orders", each) for each in ("WRITE", "DESCRIBE", "CREATE")}
    transactions = {("TRANSACTIONAL_ID", "tx", each) for each in ("WRITE", "DESCRIBE")}
    assert said(TOPIC, replace(PLAIN, producer=True)) == topics
    assert said(named, replace(PLAIN, producer=True)) == topics | transactions
    idempotent = replace(PLAIN, producer=True, idempotent=True)
    assert said(TOPIC, idempotent) == topics | {("CLUSTER", "kafka-cluster", "IDEMPOTENT_WRITE")}


def test_a_consumer_gets_what_kafkas_tool_gives_it_and_may_be_a_producer_too() -> None:
    named = replace(TOPIC, groups=["g"])
    consumer = {("TOPIC", "orders", "READ"), ("TOPIC", "orders", "DESCRIBE"), ("GROUP", "g", "READ")}
    assert said(named, replace(PLAIN, consumer=True)) == consumer
    both = replace(PLAIN, consumer=True, producer=True)
    assert said(named, both) == consumer | {("TOPIC", "orders", "WRITE"), ("TOPIC", "orders", "CREATE")}


def test_each_resource_has_each_operation_and_all_without_any() -> None:
    named = replace(NOTHING, topics=["a", "b"], cluster=True)
    assert len(said(named, Actions(operations=["read", "write"]))) == 6
    assert said(TOPIC, PLAIN) == {("TOPIC", "orders", "ALL")}


@pytest.mark.parametrize(
    ("resources", "actions", "words"),
    [
        (NOTHING, PLAIN, "no resource is given"),
        (TOPIC, Actions(producer=True, operations=["read"]), "choose the operations"),
        (NOTHING, Actions(producer=True), "give --topic"),
        (TOPIC, Actions(consumer=True), "give --topic and --group"),
        (TOPIC, Actions(idempotent=True), "give --producer, too"),
    ],
)
def test_options_that_say_too_little_or_too_much_are_refused(
    resources: Resources, actions: Actions, words: str
) -> None:
    with pytest.raises(typer.BadParameter, match=words):
        wanted_operations(resources, actions)


@pytest.mark.parametrize("name", ["DescribeConfigs", "describe-configs", "describe_configs", "DESCRIBE_CONFIGS"])
def test_operations_may_be_written_as_in_kafkas_tool(name: str) -> None:
    assert operations([name]) == [Operation.DESCRIBE_CONFIGS]


@pytest.mark.parametrize("name", ["any", "unknown", "", "reads"])
def test_what_is_no_operation_is_refused(name: str) -> None:
    with pytest.raises(typer.BadParameter, match="is not one of all, read, write"):
        operations([name])


def test_holders_are_principals_and_hosts_and_everybody_at_a_host() -> None:
    assert holders(Holders(allowed=["User:a"], denied=["User:b", "User:c"], deny_hosts=["10.0.0.1"])) == [
        (PermissionType.ALLOW, "User:a", "*"),
        (PermissionType.DENY, "User:b", "10.0.0.1"),
        (PermissionType.DENY, "User:c", "10.0.0.1"),
    ]
    assert holders(Holders(allow_hosts=["10.0.0.1"])) == [(PermissionType.ALLOW, "User:*", "10.0.0.1")]
    assert holders(Holders()) == []
    with pytest.raises(typer.BadParameter, match="'alice' has no kind: write User:alice"):
        holders(Holders(allowed=["alice"]))


def test_the_cluster_is_never_a_prefix() -> None:
    named = replace(TOPIC, cluster=True)
    wanted = wanted_operations(named, Actions(operations=["read"]))
    held = holders(Holders(allowed=["User:alice"]))
    assert entries(wanted, held, PatternType.PREFIXED) == [
        entry("orders", pattern_type=PatternType.PREFIXED),
        entry("kafka-cluster", resource_type=ResourceType.CLUSTER),
    ]
