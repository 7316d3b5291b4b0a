"""Deliberate differences from Kafka, and features that Kraft does not support yet, each with the reason.

The first that fits explains a difference. One that nothing needs any more has to go: the command says so.
"""

from __future__ import annotations

from typing import Final

from tests.end_to_end.kafka.differences.access_deliberate import ACCESS
from tests.end_to_end.kafka.differences.comparison import ABSENT, Deliberate

_TEXT: Final = "<text>"


def _family(scenarios: str, places: tuple[str, ...], reason: str) -> tuple[Deliberate, ...]:
    """Several places with one reason."""
    return tuple(Deliberate(scenarios=scenarios, places=each, reason=reason) for each in places)


_TEXTS: Final = (
    *(
        Deliberate(
            scenarios="*",
            places="*error_message",
            kafka=silent,
            kraft=_TEXT,
            reason="Kraft says in words what is wrong where Kafka gives a code alone; clients show the text to people",
        )
        for silent in (ABSENT, None, "")
    ),
    Deliberate(
        scenarios="*",
        places="*error_message",
        kafka="",
        kraft=None,
        reason="no text is null in Kraft, and in some of Kafka's answers an empty text: clients read both as none",
    ),
)

_NOT_YET: Final = (
    *_family(
        "api_versions",
        ("* api_keys.*DELEGATION_TOKEN",),
        "delegation tokens are not served yet",
    ),
    *_family(
        "api_versions",
        ("* api_keys.key *", "* api_keys.*_RAFT_VOTER"),
        "calls between Kafka's own nodes, voters of its own quorum, share and streams groups: not served",
    ),
    Deliberate(
        scenarios="api_versions",
        places="*_features.*",
        reason="features are levels of this software: Kraft has its own, and none of what is not supported yet",
    ),
    *_family(
        "describe_configs",
        ("* group: *",),
        "groups have the configs of the consumer protocol only; share and streams groups are not supported yet",
    ),
    *_family(
        "describe_configs",
        ("* results.0.configs.*remote.*", "* results.0.configs.local.*"),
        "these configs of topics are not supported yet, and are refused when they are set",
    ),
    Deliberate(
        scenarios="describe_configs",
        places="* results.0.configs.num.io.threads",
        reason="Kraft has no such threads",
    ),
)

_NO_SUCH_ACL: Final = "what no ACL or filter can have is an invalid request; Kafka fails, or closes the connection"
_ACLS: Final = (
    *_family("create_acls", ("* ANY: results.0.error_code", "* MATCH: results.0.error_code"), _NO_SUCH_ACL),
    *_family("*_acls", ("* UNKNOWN",), _NO_SUCH_ACL),
)

_FOLLOWERS: Final = (
    *(
        Deliberate(
            scenarios="another_leads",
            places=f"* fetch from {who}, epoch {epoch}: *",
            reason="consumers read from leaders; Kafka's followers answer as well from version 11 on (KIP-392)",
        )
        for who, epoch in (
            ("follower", -1),
            ("follower", 0),
            ("the former leader", -1),
            ("the former leader", 1),
            ("the other follower", -1),
            ("the other follower", 1),
        )
    ),
    *_family(
        "another_leads",
        ("session with follower: *", "session with the former leader: *", "session with the other follower: *"),
        "consumers read from leaders; Kafka's followers answer as well from version 11 on (KIP-392)",
    ),
    Deliberate(
        scenarios="another_leads",
        places="v1[235] fetch from *current_leader",
        kafka=ABSENT,
        reason="the new leader is told in every version that has a field for it; Kafka tells from version 16 on",
    ),
)

_NOBODY_SENDS: Final = (
    *_family(
        "produce_broken_batches",
        ("* two batches: *",),
        "several batches for a partition are taken, as Kraft's own protocol allows; clients of Kafka send one",
    ),
    *_family(
        "produce_broken_batches",
        ("* a batch and a half: *", "* cut off*", "* ten bytes: *"),
        "what is cut off is CORRUPT_MESSAGE, and nothing of it is taken; Kafka takes the whole batch before it",
    ),
    Deliberate(
        scenarios="produce_broken_batches",
        places="null",
        reason="Kafka fails on null for records, and never answers",
    ),
    *_family(
        "produce_broken_batches",
        ("* counts lie together: *", "* gzip that is none: *", "* lz4 that is none: *"),
        "the broker does not unpack what it stores: readers find what does not unpack",
    ),
    *_family(
        "produce_broken_batches",
        ("* log append time: *",),
        "only brokers mark batches so: Kraft refuses it from clients, as Kafka does on topics with LogAppendTime",
    ),
    Deliberate(
        scenarios="produce_with_log_append_time",
        places="marked by the client: *record_errors",
        reason="it is the batch that is marked, and no single record of it",
    ),
    *_family(
        "produce_broken_batches",
        ("* unknown codec: *error_code",),
        "Kafka answers UNKNOWN_SERVER_ERROR, Kraft UNSUPPORTED_COMPRESSION_TYPE",
    ),
    *_family(
        "produce_broken_batches",
        ("zstd in version 6: *",),
        "no client of that age packs with Zstandard; one that does is taken at its word",
    ),
    *(
        Deliberate(
            scenarios=scenarios,
            places="*log_append_time_ms",
            kafka=time,
            kraft=ABSENT,
            reason="Kafka tells a duplicate's time of creation as one of appending; with LogAppendTime both tell that",
        )
        for scenarios, time in (("produce_idempotently*", "<now>"), ("records_of_transactions", 1_000))
    ),
    *_family(
        "produce_idempotently",
        ("no epoch: *",),
        "a producer id without an epoch is refused; Kafka takes it for a batch without a producer",
    ),
    *(
        Deliberate(
            scenarios=scenarios,
            places="*partition_responses.*.log_start_offset",
            kraft=ABSENT,
            reason="Kafka tells the log start beside some refusals; clients read it beside UNKNOWN_PRODUCER_ID only",
        )
        for scenarios in ("produce_*", "records_of_transactions")
    ),
    *_family(
        "fetch_what_is_there",
        ("isolation 2: *",),
        "an isolation level that there is not reads as uncommitted; Kafka answers UNKNOWN_SERVER_ERROR",
    ),
    *_family(
        "fetch_what_is_there",
        ("the same partition twice: *",),
        "what is asked for twice is answered twice; no client does so",
    ),
    *_family(
        "fetch_within_limits",
        ("* -1 a partition: *", "* -1 in all: *"),
        "a negative limit counts as 0; Kafka answers UNKNOWN_SERVER_ERROR",
    ),
    Deliberate(
        scenarios="fetch_out_of_range",
        places="no name: *error_code",
        reason="no client leaves the name out in the versions that name topics",
    ),
    *_family(
        "fetch_with_epochs",
        ("* epoch -2: *",),
        "-1 stands for no epoch and -2 for none that a leader had; Kafka takes all below 0 for none",
    ),
    *_family(
        "fetch_with_epochs",
        ("* last fetched *", "beyond the end of its epoch: *"),
        "followers alone say what epoch they fetched last, and Kraft's fetch by another protocol",
    ),
    Deliberate(
        scenarios="fetch_in_sessions",
        places="empty session: session_id",
        reason="a session without partitions is not kept",
    ),
    *_family(
        "list_offsets",
        ("isolation 3: *",),
        "an isolation level that there is not reads as uncommitted; Kafka answers UNKNOWN_SERVER_ERROR",
    ),
    *_family(
        "list_offsets",
        ("the same partition twice: *",),
        "what is asked for twice is answered twice; no client does so",
    ),
    *_family(
        "metadata_of_topics",
        ("v1[0-3] neither: *",),
        "neither name nor id: Kafka answers UNKNOWN_SERVER_ERROR or INVALID_REQUEST, Kraft UNKNOWN_TOPIC_ID",
    ),
    *_family(
        "describe_topic_partitions",
        ("empty name: *",),
        "Kafka answers UNKNOWN_SERVER_ERROR, Kraft INVALID_TOPIC_EXCEPTION",
    ),
    *_family(
        "describe_topic_partitions",
        ("cursor between topics: *", "cursor behind all: *"),
        "a cursor at a topic that is not asked for: Kafka refuses it, Kraft goes on behind it; clients send back ours",
    ),
    *_family(
        "delete_topics",
        ("one twice: *", "id twice: *", "name, and its id: *"),
        "what is named twice is refused each time; Kafka tells of it once",
    ),
    *_family(
        "create_partitions",
        ("v0 none placed: *", "v3 none placed: *"),
        "an empty list of assignments is no list; clients send null",
    ),
    *_family(
        "create_partitions",
        ("* too many: results.0.error_code",),
        "Kafka answers UNKNOWN_SERVER_ERROR, Kraft INVALID_PARTITIONS",
    ),
    *_family(
        "alter_configs_one_by_one",
        ("* operation 9: responses.0.error_code",),
        "Kafka answers UNKNOWN_SERVER_ERROR, Kraft INVALID_REQUEST",
    ),
    Deliberate(
        scenarios="alter_configs_all_at_once",
        places="twice",
        reason="Kafka fails on it, and never answers",
    ),
    *_family(
        "alter_partition_reassignments",
        ("twice: *",),
        "two wishes for one partition are refused; Kafka follows the last",
    ),
    *_family(
        "client_quotas",
        ("* an entity of one kind twice: *",),
        "two names of one kind are refused; Kafka follows the last",
    ),
)

_TOO_LARGE: Final = "TELEMETRY_TOO_LARGE, as in later releases of Kafka: after INVALID_RECORD a client pushes no more"

_BETTER: Final = (
    *_family(
        "api_versions",
        ("* api_keys.GET_TELEMETRY_SUBSCRIPTIONS", "* api_keys.PUSH_TELEMETRY"),
        "clients are told that no metrics are wanted; Kafka has these APIs only where an exporter of metrics is set",
    ),
    Deliberate(scenarios="client_metrics_pushes", places="bomb: pushes: error_code", reason=_TOO_LARGE),
    *_family(
        "metadata_creates_topics",
        ("* first: topics.0.error_code",),
        "a topic in creation is LEADER_NOT_AVAILABLE: every client asks again for that, and some give up on Kafka's",
    ),
    *_family(
        "metadata_creates_topics",
        ("a name like another: topics.0.error_code",),
        "Kraft says at once that the topic cannot be created; Kafka says for ever that it is not there",
    ),
    *_family(
        "metadata_of_topics",
        ("v1[01] * id: *", "v1[01] id: *", "v1[01] id and name: *"),
        "ids are in the request from version 10 on, and answered; Kafka refuses them before version 12",
    ),
    *(
        Deliberate(
            scenarios=scenarios,
            places="*log_start_offset",
            kafka=ABSENT,
            reason="the log start is told beside what is refused, too",
        )
        for scenarios in ("fetch_*", "delete_records", "another_leads")
    ),
    *(
        Deliberate(
            scenarios=scenarios,
            places="*aborted_transactions",
            kafka=[],
            kraft=None,
            reason="beside an error there are no aborted transactions to tell: null; with some errors [] in Kafka",
        )
        for scenarios in ("fetch_*", "topic_ids_across_re_creation")
    ),
    Deliberate(
        scenarios="topic_ids_across_re_creation",
        places="session of the old: *error_code",
        reason="an id that there is no more is unknown; in a session Kafka remembers its name, and finds another id",
    ),
    Deliberate(
        scenarios="create_topics",
        places="v7 only asked: topics.0.topic_id",
        reason="a topic that is not created has no id",
    ),
    *_family(
        "create_topics",
        ("v7 more in sync than replicas: *",),
        "a topic that no producer with acks=all could write to is not created",
    ),
    *_family(
        "*",
        ("*configs.2.config_source", "*min.insync.replicas.config_source", "*min.insync.replicas.synonyms"),
        "Kafka sets min.insync.replicas for all brokers when it is formatted; Kraft leaves it at its default",
    ),
    *_family(
        "describe_configs",
        ("*retention.ms.synonyms",),
        "the broker's keys that a default comes from are told as well",
    ),
    *_family(
        "describe_quorum",
        ("*.leader_id", "*.leader_epoch", "*.high_watermark"),
        "of a partition that there is not, nobody leads: -1, where Kafka says 0",
    ),
    *_family("describe_quorum", ("*nodes",), "the quorum's nodes are told beside refusals, too"),
    *_family(
        "describe_quorum",
        ("* two topics: topics.0.*",),
        "each partition is answered on its own; Kafka refuses all when there is another one",
    ),
    *_family(
        "alter_configs_*",
        ("* unknown broker: responses.0.error_code",),
        "BROKER_ID_NOT_REGISTERED says more than INVALID_REQUEST",
    ),
    *_family(
        "alter_configs_*",
        ("* read only*: responses.0.error_code",),
        "INVALID_CONFIG says more than INVALID_REQUEST",
    ),
    *_family(
        "alter_configs_one_by_one",
        ("* unknown key deleted: *",),
        "a config that there is not is refused also when it is to be deleted: its name is misspelt",
    ),
    *_family(
        "list_config_resources",
        ("v1 (): config_resources", "v1 (8,): config_resources"),
        "brokers have no loggers whose levels could be set",
    ),
)

_GROUPS: Final = (
    *_family(
        "join_refused",
        ("* empty instance: *",),
        "an empty instance id is none; Kafka generates a member id that begins with it",
    ),
    Deliberate(
        scenarios="join_with_odd_values",
        places="no subscription",
        kafka="no answer",
        reason="Kafka runs out of memory when it reads a subscription that is none",
    ),
    Deliberate(
        scenarios="static_members_beside_others",
        places="third is replaced while it waits: member_id",
        reason="beside a refusal the member id is that of the request",
    ),
    Deliberate(
        scenarios="groups_of_other_brokers",
        places="* join of a member: member_id",
        reason="beside a refusal the member id is that of the request",
    ),
    *(
        Deliberate(
            scenarios=scenarios,
            places=places,
            reason="a group that a request repeats is answered once: a small request gets no millions of offsets",
        )
        for scenarios, places in (
            ("fetch_of_unknown_topics", "* one group *: groups"),
            ("describe_groups", "* twice: groups"),
            ("describe_consumer_groups", "* ?'newer-one', 'newer-one'?*: groups"),
        )
    ),
    *_family(
        "commit_refused",
        ("* no partitions: topics",),
        "a topic without partitions is answered as one",
    ),
    *_family(
        "delete_offsets",
        ("no partitions: topics",),
        "a topic without partitions is answered as one",
    ),
    *_family(
        "delete_offsets",
        ("of the group that has none: *",),
        "a group ends with its last offset; Kafka's stays until it next looks for offsets that have expired",
    ),
    *_family(
        "consumer_offsets",
        ("fetch * no member: groups.0.error_code",),
        "an epoch without a member is of an UNKNOWN_MEMBER_ID; Kafka answers UNKNOWN_SERVER_ERROR",
    ),
    *_family(
        "consumer_heartbeat_refused",
        ("* no group id: error_code",),
        "INVALID_GROUP_ID says more than INVALID_REQUEST",
    ),
    *_family(
        "consumer_heartbeat_refused",
        ("* a group id of blanks: *",),
        "blanks are a group id, as in the classic protocol",
    ),
    *_family(
        "consumer_heartbeat_refused",
        ("* -5 ms to rebalance: *",),
        "only -1 stands for no time to rebalance, and other negative times are refused",
    ),
    *(
        Deliberate(
            scenarios=scenarios,
            places=places,
            kafka=-1,
            reason="Kafka fails on a group id of 32,767 characters; to Kraft it is one like another",
        )
        for scenarios, places in (
            ("consumer_heartbeat_refused", "* the longest id: error_code"),
            ("describe_consumer_groups", "*gggg*groups.0.error_code"),
        )
    ),
    Deliberate(
        scenarios="one_protocol_in_a_group_of_the_other",
        places="classic join with no subscription: error_code",
        reason="a subscription that is none: INCONSISTENT_GROUP_PROTOCOL; Kafka answers UNKNOWN_SERVER_ERROR",
    ),
)

_TRANSACTIONS: Final = (
    *(
        Deliberate(
            scenarios=scenarios,
            places=places,
            kafka=53,
            reason="records of a transaction without its id: INVALID_TXN_STATE, as nobody is authorised; Kafka says 53",
        )
        for scenarios, places in (
            ("produce_broken_batches", "transactional*error_code"),
            ("records_of_transactions", "* no transactional id: *error_code"),
        )
    ),
    Deliberate(
        scenarios="ends_of_transactions",
        places="v5 abort, then the other: error_code",
        kafka=48,
        kraft=90,
        reason="a commit after the coordinator's abort: PRODUCER_FENCED; Kafka 4.3 says INVALID_TXN_STATE, at which "
        "Kafka Streams ends, and later versions say what Kraft says (KAFKA-20785)",
    ),
    Deliberate(
        scenarios="markers_of_others",
        places="*",
        reason="a marker is accepted from nodes of the cluster only, which use gRPC: CLUSTER_AUTHORIZATION_FAILED, as "
        "Kafka answers where it has an authorizer; without one Kafka writes anybody's markers",
    ),
)

DELIBERATE: Final[tuple[Deliberate, ...]] = (
    *_TEXTS,
    *_NOT_YET,
    *_ACLS,
    *ACCESS,
    *_FOLLOWERS,
    *_NOBODY_SENDS,
    *_BETTER,
    *_GROUPS,
    *_TRANSACTIONS,
)
