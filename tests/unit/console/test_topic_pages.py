"""The pages of topics and of configs, without a cluster: their figures, what their forms say, and their templates."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

from kraft.client import ConfigSource, ErrorCode, NewTopic, Refusal, TopicPartition
from kraft.console.asking import Asked, Paged, Panel
from kraft.console.config import ClusterConfig
from kraft.console.forms import Changed, Form, WrongInput, form_of
from kraft.console.growth import OLDEST_MS, REMEMBERED_MAX, RENEWED_MS, Growth, Rate
from kraft.console.pages import topics as topic_list
from kraft.console.pages.configs import (
    Config,
    ConfigFound,
    ConfigRow,
    Configs,
    ConfigsFound,
    check_read_only,
    check_seen,
    rows_of,
)
from kraft.console.pages.record_deletion import Purge, PurgedPartition, RecordDeletion, offsets_in, purge_of
from kraft.console.pages.topic_creation import (
    Creation,
    Growing,
    KnownConfig,
    MorePartitions,
    NewConfig,
    TopicPreview,
    new_topic,
)
from kraft.console.pages.topic_deletion import AclOfTopic, Doomed, GroupOfTopic, GroupsOfTopic, TopicDeletion, acl_rows
from kraft.console.pages.topic_figures import (
    Offsets,
    TopicRecords,
    records_by_topic,
    shape_of,
    sizes_of,
    without_replicas_on,
)
from kraft.console.pages.topics import PLACES_AT_ONCE_MAX, PartitionRow, Topic, TopicFacts, TopicRow, Topics
from kraft.console.state import State
from kraft.model.access import Operation
from kraft.model.configs import ConfigType
from kraft.rpc.peers import Unreachable
from kraft.wire.schema.describe_configs import DescribeConfigsResourceResult, DescribeConfigsSynonym
from kraft.wire.schema.describe_log_dirs import DescribeLogDirsPartition, DescribeLogDirsResult, DescribeLogDirsTopic
from kraft.wire.schema.metadata import MetadataResponsePartition
from tests.support.acl_entries import PREFIXED, entry
from tests.support.console_pages import EVIL, assert_shown_as_text, html_of


def part(
    index: int, leader: int, replicas: tuple[int, ...], isr: tuple[int, ...] = (), offline: tuple[int, ...] = ()
) -> MetadataResponsePartition:
    return MetadataResponsePartition(
        error_code=0,
        partition_index=index,
        leader_id=leader,
        replica_nodes=replicas,
        isr_nodes=isr or replicas,
        offline_replicas=offline,
    )


def paged(row: Any) -> Paged[Any]:
    return Paged(rows=[row], found=1, total=1, page=1, pages=2, search=EVIL, sort="name", descending=False)


def failed() -> Panel[Any]:
    return Panel(problem=EVIL, code="NO_ANSWER")


ROW = ConfigRow(
    name=EVIL,
    value=EVIL,
    source=EVIL,
    own=True,
    after_reset=EVIL,
    after_reset_source=EVIL,
    read_only=False,
    hidden=False,
    type=EVIL,
    choices=[EVIL],
    help=EVIL,
)


def views() -> dict[str, list[Any]]:
    """Return views in which each text is an attack, by template."""
    return views_of_topics() | views_of_forms() | views_of_configs() | views_of_deletions()


def views_of_topics() -> dict[str, list[Any]]:
    shape = shape_of([part(0, -1, (1, 2), (1,))], 3)
    records = TopicRecords(records=1, end_sum=1, unknown=1, rate=Rate(per_s=1.0, over_s=2.0))
    places = PartitionRow(partition=0, leader=2, is_preferred=False, replicas=[1, 2], in_sync=[1], offline=[2])
    facts = TopicFacts(
        topic=EVIL,
        topic_id=EVIL,
        internal=True,
        shape=shape,
        cluster_brokers=3,
        configs={EVIL: EVIL},
        partitions=paged(places),
    )
    return {
        "topics.html": [
            Topics(
                topics=Panel(value=paged(TopicRow(topic=EVIL, internal=True, shape=shape))),
                records=Panel(value={EVIL: records}),
                sizes=Panel(value={EVIL: 1}),
            ),
            Topics(topics=failed(), records=failed(), sizes=failed()),
            Topics(
                topics=Panel(value=paged(TopicRow(topic=EVIL, internal=True, shape=shape))), records=None, sizes=None
            ),
        ],
        "topic.html": [
            Topic(
                topic=Panel(value=facts),
                offsets=Panel(value={0: Offsets(start=None, end=None, problem=EVIL)}),
                records=Panel(value=records),
                sizes=Panel(value={0: 1}),
                silent=[2],
            ),
            Topic(topic=Panel(value=facts), offsets=failed(), records=failed(), sizes=failed()),
            Topic(topic=failed(), offsets=failed(), records=failed(), sizes=failed()),
        ],
    }


def views_of_forms() -> dict[str, list[Any]]:
    known = KnownConfig(name=EVIL, help=EVIL, default=EVIL)
    preview = TopicPreview(
        topic=EVIL, partitions=-1, replication_factor=-1, configs=[NewConfig(name=EVIL, value=EVIL, own=True)]
    )
    growing = Growing(partitions=1, replication_factor=1, compacted=True, internal=True)
    return {
        "topic_new.html": [
            Creation(common=[known], others=[known], preview=Panel(value=preview)),
            Creation(common=[known], others=[known], preview=failed()),
        ],
        "topic_partitions.html": [
            MorePartitions(name=EVIL, topic=Panel(value=growing), preview=Panel(value=3)),
            MorePartitions(name=EVIL, topic=failed(), preview=None),
        ],
    }


def views_of_configs() -> dict[str, list[Any]]:
    found = ConfigsFound(what=EVIL, where=EVIL, topic=EVIL, brokers=[1], rows=[ROW], total=1, search=EVIL)
    return {
        "configs.html": [Configs(configs=Panel(value=found)), Configs(configs=failed())],
        "config.html": [
            Config(config=Panel(value=ConfigFound(what=EVIL, where=EVIL, row=ROW))),
            Config(config=failed()),
        ],
    }


def views_of_deletions() -> dict[str, list[Any]]:
    doomed = Doomed(
        topic=EVIL,
        topic_id=EVIL,
        partitions=1,
        replication_factor=1,
        internal=True,
        lost=EVIL,
        records=None,
        records_problem=EVIL,
        size_bytes=None,
    )
    group = GroupOfTopic(group=EVIL, state=EVIL, committed=1, members=1)
    acl = AclOfTopic(principal=EVIL, operation=EVIL, permission=EVIL, pattern=EVIL, is_own=True)
    purged = PurgedPartition(partition=0, start=None, end=None, before=None, records=0, problem=EVIL)
    return {
        "topic_deletion.html": [
            TopicDeletion(
                topic=Panel(value=doomed),
                groups=Panel(value=GroupsOfTopic(groups=[group], asked=1, total=2, unanswered=1, missing=EVIL)),
                acls=Panel(value=[acl]),
            ),
            TopicDeletion(topic=Panel(value=doomed), groups=failed(), acls=failed()),
            TopicDeletion(topic=failed(), groups=failed(), acls=failed()),
        ],
        "record_deletion.html": [
            RecordDeletion(
                name=EVIL,
                topic=Panel(value=1),
                preview=Panel(value=Purge(partitions=[purged], records=0, offsets=EVIL)),
            ),
            RecordDeletion(name=EVIL, topic=failed(), preview=None),
        ],
    }


@pytest.mark.parametrize("template", views())
def test_what_strangers_named_is_shown_as_text(template: str) -> None:
    for view in views()[template]:
        assert_shown_as_text(template, view)


# --- figures -------------------------------------------------------------------------------------------------------


def test_spread_and_skew_are_told_of_the_brokers_that_hold_replicas() -> None:
    shape = shape_of([part(0, 1, (1, 2)), part(1, 1, (1, 2), (1,)), part(2, 1, (2, 1)), part(3, 3, (1, 3))], 4)
    assert (shape.brokers, shape.spread_percent) == (3, 75)
    # Eight replicas on three brokers: the share is three, and broker 1 has four.
    assert (shape.skewed, shape.skew_percent) == ([1], 33)
    assert (shape.leader_skewed, shape.leader_skew_percent) == ([1], 33)
    assert (shape.under_replicated, shape.under_replicated_percent) == (1, 25)
    assert (shape.preferred_leader_percent, shape.without_leader, shape.replication_factor) == (50, 0, 2)


def test_a_topic_without_leaders_or_partitions_has_figures() -> None:
    shape = shape_of([part(0, -1, (1,), (1,))], 0)
    assert (shape.without_leader, shape.spread_percent, shape.preferred_leader_percent) == (1, 0, 0)
    assert shape_of([], 3).skew_percent == 0


def test_a_size_is_a_lower_bound_while_replicas_are_away() -> None:
    """Nobody tells the sizes on a broker that is not in service, and it is not asked."""
    for away, shown in (((), "5 B"), ((2,), "≥ 5 B")):
        row = TopicRow(topic="orders", internal=False, shape=shape_of([part(0, 1, (1, 2), offline=away)], 3))
        page = Topics(topics=Panel(value=paged(row)), records=Panel(value={}), sizes=Panel(value={"orders": 5}))
        assert f'<td class="n">{shown}</td>' in html_of("topics.html", page)


def test_sizes_are_those_of_the_brokers_that_answer() -> None:
    silent = Unreachable("b-2:9094", "no answer")
    sizes = sizes_of({1: [directory("orders", {0: 5, 1: 7})], 2: silent, 3: [directory("orders", {0: 4})]})
    assert (sizes.by_topic, sizes.by_partition[TopicPartition("orders", 0)]) == ({"orders": 16}, 9)
    assert sizes.silent == [2]
    partitions = [part(0, 1, (1, 2)), part(1, 1, (1, 2), offline=(2,)), part(2, 1, (1, 3))]
    assert without_replicas_on(shape_of(partitions, 3), partitions, [2]).replicas_away == 2


def test_sizes_that_nobody_tells_or_that_are_refused_are_a_problem() -> None:
    silent = Unreachable("b-2:9094", "no answer")
    with pytest.raises(Unreachable):
        sizes_of({1: silent, 2: silent})
    with pytest.raises(Refusal):
        sizes_of({1: [], 2: Refusal(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "no")})


def directory(topic: str, sizes: dict[int, int]) -> DescribeLogDirsResult:
    rows = tuple(
        DescribeLogDirsPartition(partition_index=each, partition_size=size, offset_lag=0, is_future_key=False)
        for each, size in sizes.items()
    )
    return DescribeLogDirsResult(
        error_code=0, log_dir="/d", topics=(DescribeLogDirsTopic(name=topic, partitions=rows),)
    )


def test_records_are_counted_where_both_offsets_are_known() -> None:
    offsets = {
        TopicPartition("a", 0): Offsets(start=5, end=12),
        TopicPartition("a", 1): Offsets(start=None, end=3, problem="no leader"),
        TopicPartition("b", 0): Offsets(start=0, end=10),
    }
    growth = Growth()
    first = records_by_topic(offsets, growth, "prod", 0)
    assert (first["a"].records, first["a"].end_sum, first["a"].unknown) == (7, 12, 1)
    assert first["b"].rate is None
    offsets[TopicPartition("b", 0)] = Offsets(start=0, end=30)
    later = records_by_topic(offsets, growth, "prod", 5_000)
    assert (later["b"].rate, later["a"].rate) == (Rate(per_s=4.0, over_s=5.0), None)


def test_a_rate_is_told_over_a_time_that_means_something() -> None:
    growth = Growth()
    assert growth.seen("a", 100, 0) is None
    assert growth.seen("a", 150, 999) is None
    assert growth.seen("a", 200, 2_000) == Rate(per_s=50.0, over_s=2.0)
    assert growth.seen("a", 1_100, RENEWED_MS) == Rate(per_s=100.0, over_s=10.0)
    assert growth.seen("a", 1_100, RENEWED_MS + 1_000) == Rate(per_s=0.0, over_s=1.0)
    # A topic that was deleted and created anew, or whose records are gone.
    assert growth.seen("a", 3, RENEWED_MS + 2_000) is None
    assert growth.seen("a", 3, OLDEST_MS * 2) is None
    for number in range(REMEMBERED_MAX):
        growth.seen(number, 1, OLDEST_MS * 2)
    assert growth.seen("a", 9, OLDEST_MS * 2 + 5_000) is None


# --- configs -------------------------------------------------------------------------------------------------------


def config(
    name: str, *synonyms: tuple[str, str, ConfigSource], read_only: bool = False, secret: bool = False
) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=name,
        value=synonyms[0][1] if synonyms else None,
        read_only=read_only,
        config_source=synonyms[0][2] if synonyms else ConfigSource.DEFAULT_CONFIG,
        is_sensitive=secret,
        synonyms=tuple(DescribeConfigsSynonym(name=key, value=value, source=source) for key, value, source in synonyms),
        config_type=ConfigType.PASSWORD if secret else ConfigType.LONG,
    )


TOPIC, BROKER = ConfigSource.DYNAMIC_TOPIC_CONFIG, ConfigSource.DYNAMIC_BROKER_CONFIG
ALL, FILE, DEFAULT = (
    ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG,
    ConfigSource.STATIC_BROKER_CONFIG,
    ConfigSource.DEFAULT_CONFIG,
)


def test_what_holds_after_a_reset_is_told_with_its_unit() -> None:
    hours = ("log.retention.hours", "168", DEFAULT)
    (row,) = rows_of([config("retention.ms", ("retention.ms", "5", TOPIC), hours)], TOPIC)
    assert (row.own, row.after_reset, row.after_reset_source) == (True, "log.retention.hours=168", "default")
    of_ms = ("log.retention.ms", "7", BROKER)
    (row,) = rows_of([config("retention.ms", ("retention.ms", "5", TOPIC), of_ms, hours)], TOPIC)
    assert (row.after_reset, row.after_reset_source) == ("7", "the broker")


def test_a_broker_has_its_own_configs_first_and_hides_secrets() -> None:
    rows = rows_of(
        [
            config("a.ms", ("a.ms", "1", DEFAULT)),
            config("z.ms", ("z.ms", "2", BROKER), ("z.ms", "3", ALL)),
            config("password", ("password", "", FILE), secret=True, read_only=True),
        ],
        BROKER,
    )
    assert [each.name for each in rows] == ["z.ms", "a.ms", "password"]
    assert (rows[0].after_reset, rows[2].value, rows[2].hidden) == ("3", None, True)
    with pytest.raises(WrongInput, match="restart"):
        check_read_only(rows[2])


def test_what_all_brokers_have_leaves_out_what_one_has_of_its_own() -> None:
    (row,) = rows_of([config("z.ms", ("z.ms", "2", BROKER), ("z.ms", "3", ALL), ("z.ms", "4", FILE))], ALL)
    assert (row.value, row.own, row.source, row.after_reset) == ("3", True, "all brokers", "4")


def test_a_config_that_somebody_else_has_changed_is_refused_with_both_values() -> None:
    (row,) = rows_of([config("retention.ms", ("retention.ms", "5", TOPIC))], TOPIC)
    check_seen(row, "5", True)
    with pytest.raises(Changed, match=r"it was '4' \(set here\), and is '5' \(set here\) now"):
        check_seen(row, "4", True)
    with pytest.raises(Changed, match="not set here"):
        check_seen(row, "5", False)


# --- forms ---------------------------------------------------------------------------------------------------------


def test_a_form_of_a_new_topic_leaves_to_the_cluster_what_is_empty() -> None:
    form = form_of(
        [
            ("topic", " a "),
            ("partition_count", ""),
            ("config.retention.ms", "5"),
            ("config.segment.ms", " "),
            ("other_configs", "x=y\n\n z = 1"),
        ]
    )
    assert new_topic(form) == NewTopic(topic="a", configs={"retention.ms": "5", "x": "y", "z": "1"})


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"topic": " "}, "has no name"),
        ({"topic": "a", "partition_count": "0"}, "from 1"),
        ({"topic": "a", "replication_factor": "99999"}, "32767"),
        ({"topic": "a", "other_configs": "x"}, "line 1"),
    ],
)
def test_a_form_of_a_new_topic_that_is_wrong_is_told_so(fields: dict[str, str], text: str) -> None:
    with pytest.raises(WrongInput, match=text):
        new_topic(form_of(list(fields.items())))


def test_records_are_deleted_below_an_offset_that_is_there() -> None:
    offsets = {
        0: Offsets(start=5, end=12),
        1: Offsets(start=0, end=3),
        2: Offsets(start=9, end=9),
        3: Offsets(start=None, end=None, problem="no leader"),
    }
    some = purge_of(offsets, 7)
    assert [each.records for each in some.partitions] == [2, 3, 0, 0]
    assert (some.records, some.offsets) == (5, "0:7,1:3")
    assert offsets_in(form_of([("offsets", some.offsets)])) == {0: 7, 1: 3}
    assert purge_of(offsets, None).offsets == "0:12,1:3"


@pytest.mark.parametrize("offsets", ["", "0", "0:", "a:1", "0:-1", "0:1,", "9999999999:1", "0:" + "9" * 19])
def test_offsets_that_cannot_be_read_are_refused(offsets: str) -> None:
    with pytest.raises(WrongInput):
        offsets_in(form_of([("offsets", offsets)]))


def test_acls_that_name_the_topic_come_first() -> None:
    rows = acl_rows([entry("ord", pattern_type=PREFIXED), entry("orders", Operation.WRITE), entry("*")], "orders")
    assert [(each.pattern, each.is_own) for each in rows] == [
        ("literal orders", True),
        ("literal *", False),
        ("prefixed ord", False),
    ]


def test_figures_of_many_partitions_are_asked_for_after_the_list(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page of 2,000 partitions took more than a second."""
    crowd = SimpleNamespace(
        name="crowd", is_internal=False, partitions=[part(each, 1, (1,)) for each in range(PLACES_AT_ONCE_MAX + 1)]
    )
    cluster = SimpleNamespace(topics=[crowd], brokers=[1])
    admin = SimpleNamespace(describe_cluster=lambda **_: cluster)
    asked_of: list[int] = []

    def offsets_of(_: object, places: list[TopicPartition]) -> dict[TopicPartition, Offsets]:
        asked_of.append(len(places))
        return {}

    monkeypatch.setattr(topic_list, "offsets_of", offsets_of)
    monkeypatch.setattr(topic_list, "_directories", lambda *_: {})

    def shown(**query: str) -> Topics:
        with ThreadPoolExecutor() as threads:
            client: Any = SimpleNamespace(admin=admin)
            named = ClusterConfig(name="prod", bootstrap_servers="b:1")
            asked = Asked(
                cluster=named, user="", client=client, threads=threads, state=State(), path={}, query=query, form=Form()
            )
            return asyncio.run(topic_list.topics(asked))

    first = shown()
    assert (first.records, first.sizes, asked_of) == (None, None, [])
    assert first.topics.value is not None
    assert first.topics.value.rows[0].shape.partitions == PLACES_AT_ONCE_MAX + 1
    page = html_of("topics.html", first)
    assert 'hx-get="/clusters/prod?sort=name&amp;page=1&amp;more=true"' in page
    whole = shown(more="true")
    assert asked_of == [PLACES_AT_ONCE_MAX + 1]
    assert whole.sizes is not None
    assert "hx-get" not in html_of("topics.html", whole)
