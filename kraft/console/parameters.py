"""What is asked for with a page, a change or a stream: each name once, with its type and a sentence for scripts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct


class Parameter(Struct, frozen=True, kw_only=True):
    what: str
    """One sentence."""

    type: str = "string"
    """As JSON Schema has it."""

    many: bool = False
    """Whether there may be several values."""

    def schema(self, described: bool = True) -> dict[str, Any]:
        found: dict[str, Any] = {"type": self.type}
        if self.many:
            found = {"type": "array", "items": found}
        return found | {"description": self.what} if described else found


TABLE: Final = ("q", "sort", "order", "page")
"""What each table takes."""

QUOTA_ENTITY: Final = ("user", "user-default", "client-id", "client-id-default", "ip", "ip-default")
QUOTAS: Final = (
    "producer_byte_rate",
    "consumer_byte_rate",
    "request_percentage",
    "controller_mutation_rate",
    "connection_creation_rate",
)

ACL_FILTER: Final = ("principal", "type", "resource", "operation", "permission", "host")
NEW_ACLS: Final = (
    "principal",
    "purpose",
    "topics",
    "groups",
    "transactional-ids",
    "type",
    "resource",
    "operation",
    "pattern",
    "permission",
    "host",
)
PRODUCED: Final = (
    "key",
    "key_format",
    "value",
    "value_format",
    "tombstone",
    "headers",
    "partition",
    "compression",
    "once",
)
"""What a record is made of."""

_READ_AS: Final = "How it is decoded: json, text, msgpack, avro, protobuf or hex; as it fits where it is not given."
_WRITTEN_AS: Final = "How it is written: text (the default), json, hex or base64."

FILTERS: Final = ("key", "text", "filter", "isolation")
"""Which records are wanted."""

SHOWN_AS: Final = ("key_format", "value_format")

PARAMETERS: Final[Mapping[str, Parameter]] = {
    "from": Parameter(what="Where to read: newest (and back), beginning, offset, or time."),
    "offset": Parameter(what="The first offset, with from=offset.", type="integer"),
    "time": Parameter(what="With from=time: UTC, such as 2026-01-31T23:59, or milliseconds since 1970."),
    "rows": Parameter(what="Records of a page, 200 at most.", type="integer"),
    "at": Parameter(what="Where an earlier page ended, as its `more` says: partitions and offsets, such as 0:17,1:20."),
    "text": Parameter(what="What is in key, value or headers, as they are shown, in any case."),
    "filter": Parameter(what="An expression, such as value.total > 100; docs/console.md has the grammar."),
    "isolation": Parameter(what="committed, or all: with open and aborted transactions, and markers."),
    "q": Parameter(what="Part of a name, in any case."),
    "sort": Parameter(what="Column to sort by; the first one where it is none of the table's."),
    "order": Parameter(what="desc: from the last one to the first."),
    "page": Parameter(what="Number of the page, from 1; a page has 200 rows at most.", type="integer"),
    "all": Parameter(what="Whether all partitions are meant.", type="boolean"),
    "brokers": Parameter(what="Ids of the brokers that shall have the replicas.", type="integer", many=True),
    "directory": Parameter(what="Path of a log directory of the broker."),
    "do": Parameter(what="What to do: one of the page's choices."),
    "ignore_racks": Parameter(what="Whether replicas are placed without regard to racks.", type="boolean"),
    "in_addition": Parameter(what="Whether moves may begin while others are under way.", type="boolean"),
    "more": Parameter(what="true: also what takes longer, such as the bytes in logs.", type="boolean"),
    "off": Parameter(what="Id of the broker that is to be emptied.", type="integer"),
    "part": Parameter(what="The one part of the page that is wanted; all without it."),
    "partitions": Parameter(what="Partitions, as TOPIC-PARTITION.", many=True),
    "plan": Parameter(what="A line for each partition: TOPIC-PARTITION: BROKERS NOW -> THEN."),
    "throttle": Parameter(what="Bytes each second, such as 10 MiB; none without it."),
    "which": Parameter(what="A partition, as TOPIC-PARTITION."),
    "way": Parameter(what="balance: over all brokers in service; even: over `brokers`; off: off the broker `off`."),
    "target": Parameter(what="Where offsets are moved to: earliest, latest, offset, time, duration or shift."),
    "topic": Parameter(what="Name of a topic."),
    "instance": Parameter(what="Instance ids of static members.", many=True),
    "show": Parameter(what="open: only transactions that are not complete."),
    "minutes": Parameter(what="Leave out transactions that were written to since so many minutes.", type="integer"),
    "start_offset": Parameter(what="First offset of a transaction.", type="integer"),
    "user": Parameter(what="Name of a user."),
    "new": Parameter(what="Whether the user is new: one that is there is then not changed.", type="boolean"),
    "password": Parameter(what="The new password. Never in an address."),
    "again": Parameter(what="The same password again."),
    "mechanism": Parameter(what="SCRAM-SHA-256 or SCRAM-SHA-512; both where it is empty."),
    "iterations": Parameter(what="Iterations of SCRAM, from 4096 to 16384.", type="integer"),
    "confirm": Parameter(what="Name of what is to be lost, typed again."),
    "acls": Parameter(what="Whether its ACLs are deleted, too.", type="boolean"),
    "quotas": Parameter(what="Whether its quotas are removed, too.", type="boolean"),
    "force": Parameter(
        what="Whether it is done although nobody may be an administrator then, or brokers need it.", type="boolean"
    ),
    "user-default": Parameter(what="Whether the entity is the default of users.", type="boolean"),
    "client-id": Parameter(what="A client id."),
    "client-id-default": Parameter(what="Whether the entity is the default of client ids.", type="boolean"),
    "ip": Parameter(what="An IP address."),
    "ip-default": Parameter(what="Whether the entity is the default of IP addresses.", type="boolean"),
    "producer_byte_rate": Parameter(what="Bytes per second, such as 1048576 or 1 MiB; empty removes the quota."),
    "consumer_byte_rate": Parameter(what="Bytes per second, such as 1048576 or 1 MiB; empty removes the quota."),
    "request_percentage": Parameter(what="Percent of one core at each broker; empty removes the quota."),
    "controller_mutation_rate": Parameter(what="Partitions per second; empty removes the quota."),
    "connection_creation_rate": Parameter(what="Connections per second of an IP address; empty removes the quota."),
    "shown": Parameter(what="What a page had there: what has changed since is neither overwritten nor deleted."),
    "principal": Parameter(what="A principal, such as User:alice; User: before a bare name."),
    "type": Parameter(what="Type of a resource: topic, group, cluster, transactional id."),
    "resource": Parameter(what="Name of a resource; without pattern, ACLs of beginnings and of * are found, too."),
    "operation": Parameter(what="Operation, such as read or describe configs."),
    "permission": Parameter(what="allow or deny."),
    "host": Parameter(what="Address of a client, or *."),
    "pattern": Parameter(what="literal: names are whole; prefixed: they are beginnings."),
    "purpose": Parameter(
        what="consumer, producer, idempotent, transactional, viewer, administrator, or operations for single ones."
    ),
    "topics": Parameter(what="Topics, separated by spaces, commas or lines."),
    "groups": Parameter(what="Names of groups, likewise."),
    "transactional-ids": Parameter(what="Transactional ids, likewise."),
    "result": Parameter(what="OK, failed, or part of Kafka's error."),
    "event": Parameter(what="action, refusal, login, connection, use, repeated or lost."),
    "since": Parameter(what="A time such as 2026-11-27T15:00, in UTC where it has no offset."),
    "until": Parameter(what="A time, likewise."),
    "before": Parameter(what="Offset: lines from it on are not shown.", type="integer"),
    "key": Parameter(what="The whole key, as it is shown."),
    "key_format": Parameter(what=_READ_AS),
    "value": Parameter(what="Value of the config."),
    "value_format": Parameter(what=_READ_AS),
    "tombstone": Parameter(what="true: no value, for a key of a compacted topic.", type="boolean"),
    "headers": Parameter(what="Headers as name: value, one each.", many=True),
    "partition": Parameter(what="Number of a partition; of records, a range such as 0-49, too; empty: all."),
    "compression": Parameter(what="none (the default), gzip, snappy, lz4 or zstd."),
    "once": Parameter(what="Any text of up to 64 characters: what comes a second time with it is refused."),
    "partition_count": Parameter(what="How many partitions; the cluster's default without it.", type="integer"),
    "replication_factor": Parameter(what="Replicas of each partition; the cluster's default too.", type="integer"),
    "config": Parameter(what="Configs by name; in a form, a field config.NAME for each.", type="object"),
    "other_configs": Parameter(what="Further configs, a line NAME=VALUE for each."),
    "count": Parameter(what="How many partitions the topic is to have.", type="integer"),
    "reset": Parameter(what="Whether to reset the config, instead of setting a value.", type="boolean"),
    "seen": Parameter(what="What was there before, as the page showed it; if it is another now, nothing is done."),
    "seen_own": Parameter(what="Whether the value that was seen was set there itself.", type="boolean"),
    "keep_from": Parameter(what="First offset to keep; all records are deleted without it.", type="integer"),
    "offsets": Parameter(what="First offset to keep of each partition: PARTITION:OFFSET, with commas between."),
}

_OF_MOVES: Final = Parameter(what="Topics, or patterns such as orders-*, separated by spaces; all without it.")

MEANINGS: Final[Mapping[str, Mapping[str, Parameter]]] = {
    "/clusters/{cluster}/moves/plan": {"topics": _OF_MOVES},
    "/clusters/{cluster}/moves/elections": {"topics": _OF_MOVES},
    "/clusters/{cluster}/acls/create": {
        "operation": Parameter(what="Operations, such as read or describe configs.", many=True)
    },
    "/clusters/{cluster}/topics/{topic}/produce": {
        "key": Parameter(what="Key of the record; empty: none."),
        "key_format": Parameter(what=_WRITTEN_AS),
        "value": Parameter(what="Value of the record."),
        "value_format": Parameter(what=_WRITTEN_AS),
        "partition": Parameter(what="Number of the partition; empty: by the key."),
    },
    "/clusters/{cluster}/group-reset/{group:path}": {
        "value": Parameter(what="The offset, time, duration or number that the target needs."),
        "partitions": Parameter(what="Partitions of the topic, such as 0-3, 7; all without it."),
        "plan": Parameter(what="The plan that the preview made."),
    },
}
"""What a name means at one address, where it is another thing than elsewhere."""


def parameter(path: str, name: str) -> Parameter:
    return MEANINGS.get(path, {}).get(name) or PARAMETERS[name]
