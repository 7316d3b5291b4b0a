"""Moves and elections: plans that are reviewed, what is seen of their progress, and what the pages say of both."""

from __future__ import annotations

from typing import Any

import pytest

from kraft.client import ErrorCode, KraftError, Refusal, TopicPartition, TopicPartitionReplica
from kraft.console import moves_seen
from kraft.console.asking import Paged, Panel, Wanted
from kraft.console.forms import WrongInput, form_of
from kraft.console.moves_seen import MovesSeen
from kraft.console.pages.broker import BrokerFacts, OneBroker, Place, Places, ReplicaRow, facts_of, places_of
from kraft.console.pages.broker import said_of as said_of_directories
from kraft.console.pages.brokers import Broker, Directory, brokers_of, directories_of
from kraft.console.pages.elections import (
    Candidate,
    ElectionRow,
    Elections,
    Leaders,
    Unclean,
    UncleanFacts,
    said_of,
    unclean_facts,
)
from kraft.console.pages.moves import MoveRow, Moves, Moving, Throttles, moving_of
from kraft.console.pages.overview import NodeRestart, sizes_of
from kraft.console.pages.plan import BrokerChoice, Plan, PlanRow, Review, bytes_per_second, matching, reviewed
from kraft.moves.planned import PlannedMove
from kraft.moves.progress import Copy, Held, Move, Outcomes, Progress
from kraft.wire.schema.describe_log_dirs import DescribeLogDirsPartition, DescribeLogDirsResult, DescribeLogDirsTopic
from tests.support.cluster_facts import broker, facts, partition
from tests.support.console_pages import EVIL, assert_shown_as_text

ORDERS_0 = TopicPartition("orders", 0)


def move(copied_bytes: int = 250, name: str = "orders", waits_for: str = "") -> Move:
    copy = Copy(broker=3, size_bytes=copied_bytes, behind=7, in_sync=False, percent=25)
    return Move(
        topic=name,
        partition=0,
        replicas=[3, 1],
        removing=[2],
        copies=[copy],
        size_bytes=1_000,
        is_throttled=True,
        waits_for=waits_for,
    )


def paged(row: Any) -> Paged[Any]:
    return Paged(rows=[row], found=1, total=1, page=1, pages=2, search=EVIL, sort="name", descending=False)


def failed() -> Panel[Any]:
    return Panel(problem=EVIL, code="NO_ANSWER")


def views() -> list[tuple[str, Any]]:
    row = MoveRow(move=move(name=EVIL, waits_for=EVIL), seen_ms=1_000, left_ms=1_000)
    moving = Moving(moves=paged(row), copied_bytes=1, to_copy_bytes=2, silent=[3])
    throttles = Throttles(over=[EVIL], whole_topics=[EVIL], rates=[EVIL], is_moving=True, is_left=True)
    planned = PlanRow(topic=EVIL, partition=0, now=[1], then=[2], added=[2], removed=[1], copy_bytes=None)
    plan = Plan(rows=[planned], text=EVIL, rollback=EVIL, copy_bytes=1, left_out=1, under_way=1, warnings=[EVIL])
    choices = Panel(value=[BrokerChoice(broker_id=1, rack=EVIL, in_service=False, replicas=1)])
    election = ElectionRow(topic=EVIL, partition=0, leader=2, preferred=1, in_sync=[2], can_lead=True)
    leaders = Leaders(partitions=1, not_preferred=paged(election), without_leader=[election], leaderless=1)
    candidate = Candidate(broker=1, in_service=True, was_in_sync=False, size_bytes=1, behind=1)
    one = Broker(broker_id=1, addresses=[EVIL], rack=EVIL, state=EVIL, leaders=1, replicas=1, in_sync=1)
    replica = ReplicaRow(
        topic=EVIL, partition=0, leads=False, preferred=True, in_sync=False, others_in_sync=0, moving=True
    )
    of_broker = BrokerFacts(
        broker=one,
        restart=NodeRestart(node_id=1, safe=False, reasons=[EVIL]),
        is_controller=True,
        is_active_controller=False,
        only_in_sync=1,
        below_minimum=1,
        replicas=paged(replica),
    )
    directory = Directory(path=EVIL, problem=EVIL, replicas=1, size_bytes=1, total_bytes=-1, usable_bytes=-1)
    place = Place(log_dir=EVIL, size_bytes=1, behind=1, future=EVIL, percent=1)
    places = Places(directories=[directory, directory], by_partition={f"{EVIL}-0": place})
    lost = UncleanFacts(name=EVIL, topic=EVIL, partition=0, leader=None, candidates=[candidate], holders=[2])
    return [
        ("moves.html", Moves(moving=Panel(value=moving), throttles=Panel(value=throttles))),
        ("moves.html", Moves(moving=failed(), throttles=failed())),
        ("plan.html", Review(brokers=choices, plan=Panel(value=plan))),
        ("plan.html", Review(brokers=failed(), plan=failed())),
        ("plan.html", Review(brokers=choices, plan=None)),
        ("elections.html", Elections(leaders=Panel(value=leaders))),
        ("elections.html", Elections(leaders=failed())),
        ("broker.html", OneBroker(facts=Panel(value=of_broker), places=Panel(value=places))),
        ("broker.html", OneBroker(facts=Panel(value=of_broker), places=failed())),
        ("broker.html", OneBroker(facts=failed(), places=failed())),
        ("unclean.html", Unclean(facts=Panel(value=lost))),
        ("unclean.html", Unclean(facts=failed())),
    ]


@pytest.mark.parametrize(("template", "view"), views())
def test_what_strangers_named_is_shown_as_text(template: str, view: Any) -> None:
    typed = form_of([("topics", EVIL), ("plan", EVIL), ("throttle", EVIL), ("way", "even"), ("brokers", EVIL)])
    assert_shown_as_text(template, view, form=typed)


# --- plans ---------------------------------------------------------------------------------------------------------


def test_a_review_says_what_is_copied_and_how_to_undo_it() -> None:
    moves = [PlannedMove(partition=ORDERS_0, now=(1, 2), then=(2, 3))]
    plan = reviewed(moves, {ORDERS_0: 700})
    assert (plan.rows[0].added, plan.rows[0].removed, plan.copy_bytes) == ([3], [1], 700)
    assert (plan.text, plan.rollback) == ("orders-0: 1,2 -> 2,3", "orders-0: 2,3 -> 1,2")
    assert reviewed(moves, {}).rows[0].copy_bytes is None


@pytest.mark.parametrize(
    ("text", "rate"),
    [("", None), ("5000", 5_000), ("10 MiB", 10_485_760), ("10MB/s", 10_485_760), ("0.5 k", 512), ("1 GiB/s", 2**30)],
)
def test_a_rate_is_written_as_people_write_it(text: str, rate: int | None) -> None:
    assert bytes_per_second(text) == rate


@pytest.mark.parametrize("text", ["0", "-1", "ten", "1 TiB", "1e3", "٣", "9" * 30, "1" + "0" * 14 + " G"])
def test_what_is_no_rate_is_refused(text: str) -> None:
    with pytest.raises(WrongInput, match="throttle: "):
        bytes_per_second(text)


def test_topics_are_named_by_patterns() -> None:
    names = ["a.1", "a.2", "b"]
    assert matching("", names) == names
    assert matching("a.*, b", names) == names
    assert matching("?.2", names) == ["a.2"]
    with pytest.raises(WrongInput, match=r"none is called '\[ab\]'"):
        matching("[ab]", names)
    with pytest.raises(WrongInput, match="there is none that you may see"):
        matching("", [])


# --- progress ------------------------------------------------------------------------------------------------------


def test_how_long_a_move_takes_still_is_told_once_it_has_been_watched() -> None:
    seen = MovesSeen()

    def shown(copied_bytes: int, now_ms: int) -> MoveRow:
        progress = Progress(moves=[move(copied_bytes)], silent=[])
        return moving_of(progress, seen, "prod", Wanted(), now_ms).moves.rows[0]

    assert (shown(250, 1_000).seen_ms, shown(300, 2_000).left_ms) == (0, None)
    row = shown(500, 11_000)
    assert (row.seen_ms, row.left_ms) == (10_000, 20_000)


def test_only_so_many_moves_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moves_seen, "SEEN_MAX", 2)
    seen, names = MovesSeen(), [TopicPartition("orders", each) for each in range(3)]
    assert sorted(seen.seen("prod", dict.fromkeys(names, 0), 1)) == names[:2]
    assert seen.seen("other", dict.fromkeys(names, 0), 1) == {}
    assert seen.seen("prod", {}, 2) == {}
    assert sorted(seen.seen("other", dict.fromkeys(names, 0), 3)) == names[:2]


# --- elections -----------------------------------------------------------------------------------------------------


def test_an_election_says_what_became_of_each_partition() -> None:
    unneeded = Refusal(ErrorCode.ELECTION_NOT_NEEDED, "")
    away = Refusal(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "broker 1 is away")
    assert said_of({}).startswith("No partition needs an election")
    assert said_of({ORDERS_0: unneeded}).startswith("No partition needs an election")
    others = [TopicPartition("orders", each) for each in range(1, 3)]
    assert said_of({ORDERS_0: None, others[0]: unneeded, others[1]: away}) == (
        "1 leader was elected; 1 partition needed none; 1 election failed: orders-2: broker 1 is away."
    )
    with pytest.raises(Refusal, match="no leader was elected: orders-0: broker 1 is away"):
        said_of({ORDERS_0: away})


def test_an_unclean_election_says_who_holds_the_records_and_who_could_lead() -> None:
    state = partition(leader=-1, isr=(1,), elr=(2,), replicas=(1, 2, 3)).partition
    held = {3: Held(log_dir="/a", size_bytes=700, behind=5, is_future=False)}
    found = unclean_facts(ORDERS_0, state, [3, 4], held)
    assert (found.leader, found.holders, found.can_be_elected, found.lost_at_least) == (None, [1, 2], True, 5)
    assert [each.in_service for each in found.candidates] == [False, False, True]
    assert not unclean_facts(ORDERS_0, state, [4], {}).can_be_elected


# --- brokers -------------------------------------------------------------------------------------------------------


def test_a_broker_with_more_than_its_share_is_marked() -> None:
    rows = brokers_of([broker(1, leaders=4, replicas=8), broker(2, leaders=1, replicas=4), broker(3, leaders=1)])
    assert [(each.leaders_skew, each.is_leader_skewed) for each in rows] == [(100, True), (-50, False), (-50, False)]
    assert [each.is_skewed for each in rows] == [True, False, False]


def log_directory(path: str, size_bytes: int, *, is_future: bool = False) -> DescribeLogDirsResult:
    replica = DescribeLogDirsPartition(
        partition_index=0, partition_size=size_bytes, offset_lag=0, is_future_key=is_future
    )
    topics = (DescribeLogDirsTopic(name="orders", partitions=(replica,)),)
    return DescribeLogDirsResult(error_code=0, log_dir=path, topics=topics)


def test_bytes_of_brokers_and_directories_have_their_skew() -> None:
    outcomes: Outcomes = {
        1: [log_directory("/a", 300), log_directory("/b", 0)],
        2: [log_directory("/a", 100)],
        3: KraftError(""),
    }
    first, second, third = directories_of(outcomes)
    assert (first.size_bytes, first.skew, second.skew, third.skew) == (300, 50, -50, 0)
    assert [each.skew for each in first.directories] == [125, -100]
    sizes = sizes_of(outcomes)
    assert (sizes.size_bytes, sizes.skew, sizes.silent, sizes.free_bytes) == (400, 50, [3], None)


def test_a_broker_says_what_depends_on_it() -> None:
    partitions = [partition(0, isr=(1,)), partition(1, leader=2, isr=(1, 2)), partition(2, replicas=(2, 3))]
    found = facts_of(facts(partitions=partitions), 1, Wanted())
    assert (found.only_in_sync, found.below_minimum, found.is_active_controller) == (1, 2, True)
    assert [(each.name, each.leads, each.others_in_sync) for each in found.replicas.rows] == [
        ("orders-0", True, 0),
        ("orders-1", False, 1),
    ]
    assert found.restart.safe is False
    with pytest.raises(Refusal, match="there is no broker 9"):
        facts_of(facts(), 9, Wanted())


def test_a_replica_on_its_way_to_another_directory_is_shown() -> None:
    places = places_of(1, [log_directory("/a", 1_000), log_directory("/b", 250, is_future=True)])
    place = places.by_partition["orders-0"]
    assert (place.log_dir, place.future, place.percent) == ("/a", "/b", 25)


def test_moves_between_directories_say_what_was_refused() -> None:
    replica, other = TopicPartitionReplica("orders", 0, 1), TopicPartitionReplica("orders", 1, 1)
    assert said_of_directories({replica: None, other: KraftError("no")}, "/b") == (
        "1 replica moved to /b, or on the way; refused: no."
    )
    with pytest.raises(KraftError, match="no"):
        said_of_directories({replica: KraftError("no")}, "/b")
