"""The same raw requests to Apache Kafka and to Kraft; prints what their answers differ in.

    python -m tests.end_to_end.kafka.differences
    python -m tests.end_to_end.kafka.differences 'produce_*' --record   # and keep Kafka's answers for the test suite
    python -m tests.end_to_end.kafka.differences --recorded             # with the answers kept, without Java

Ends with 1 when there is a difference that `deliberate.py` does not explain, or an explanation that nothing needs;
with 2 when Kafka cannot be had, and so nothing was compared.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import pytest

from kraft.testing import Cluster
from tests.end_to_end.kafka.differences import recorded
from tests.end_to_end.kafka.differences.access_brokers import kafka_with_users, kraft_with_users
from tests.end_to_end.kafka.differences.access_matrix import access_matrix, record, recorded_answers
from tests.end_to_end.kafka.differences.comparison import Comparison, Deliberate, Difference, compare
from tests.end_to_end.kafka.differences.deliberate import DELIBERATE
from tests.end_to_end.kafka.differences.peer import ROOT
from tests.end_to_end.kafka.differences.push_scenarios import PUSH_SETTINGS, kraft_that_asks
from tests.end_to_end.kafka.differences.scenarios import (
    ACL_SCENARIOS,
    ACL_SETTINGS,
    CLUSTER_NODES,
    CLUSTER_SCENARIOS,
    GROUP_SCENARIOS,
    GROUP_SETTINGS,
    PUSH_SCENARIOS,
    SCENARIOS,
    SETTINGS,
    ClusterScenario,
    Scenario,
    play,
    play_in_cluster,
)
from tests.support.kafka.kafka_broker import kafka_brokers
from tests.support.kafka.kafka_jars import kafka_jars

Told = dict[str, dict[str, Any]]
"""The answers of each scenario, by its name."""

Brokers = Callable[[int, Mapping[str, str]], AbstractContextManager[list[str]]]
"""Starts that many brokers with these settings; gives their addresses."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The scenarios to play, by the brokers that they need."""

    single: Sequence[Scenario]
    of_acls: Sequence[Scenario]
    of_pushes: Sequence[Scenario]
    of_groups: Sequence[Scenario]
    of_cluster: Sequence[ClusterScenario]
    of_users: Sequence[Scenario]

    @property
    def all(self) -> list[Scenario | ClusterScenario]:
        return [*self.single, *self.of_acls, *self.of_pushes, *self.of_groups, *self.of_cluster, *self.of_users]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenarios", nargs="*", help="patterns of their names; all without")
    parser.add_argument("--record", action="store_true", help="keep Kafka's answers for the test suite")
    parser.add_argument("--recorded", action="store_true", help="compare with Kafka's answers as they were kept")
    given = parser.parse_args()
    patterns = given.scenarios or ["*"]
    wanted = Wanted(
        [each for each in SCENARIOS if _is_wanted(each, patterns)],
        [each for each in ACL_SCENARIOS if _is_wanted(each, patterns)],
        [each for each in PUSH_SCENARIOS if _is_wanted(each, patterns)],
        [each for each in GROUP_SCENARIOS if _is_wanted(each, patterns)],
        [each for each in CLUSTER_SCENARIOS if _is_wanted(each, patterns)],
        [each for each in (access_matrix,) if _is_wanted(each, patterns)],
    )
    names = [each.__name__ for each in wanted.all]
    try:
        of_kafka = {name: _read(name) for name in names} if given.recorded else _of(wanted, _kafka, kafka_with_users)
    except pytest.skip.Exception as skipped:
        # Not 0: whoever asked for a comparison, or a record, has none.
        print(f"nothing was compared: {skipped}", file=sys.stderr)
        return 2
    if given.record:
        for name in names:
            _write(name, of_kafka[name])
    of_kraft = _of(wanted, _kraft, _kraft_with_users)
    comparisons = [compare(name, of_kafka[name], of_kraft[name], DELIBERATE) for name in names]
    unneeded = [] if given.scenarios else _unneeded(comparisons)
    _print(comparisons, unneeded)
    return 1 if unneeded or any(each.unexplained for each in comparisons) else 0


def _is_wanted(scenario: Scenario | ClusterScenario, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(scenario.__name__, pattern) for pattern in patterns)


def _read(name: str) -> dict[str, Any]:
    return recorded_answers() if name == access_matrix.__name__ else recorded.read(name)


def _write(name: str, answers: dict[str, Any]) -> None:
    if name == access_matrix.__name__:
        record(answers)
    else:
        recorded.write(name, answers)


def _of(wanted: Wanted, brokers: Brokers, broker_with_users: Callable[[], AbstractContextManager[str]]) -> Told:
    answer: Told = {}
    for scenarios, settings in (
        (wanted.single, SETTINGS),
        (wanted.of_acls, ACL_SETTINGS),
        (wanted.of_pushes, PUSH_SETTINGS),
        (wanted.of_groups, GROUP_SETTINGS),
    ):
        if scenarios:
            with brokers(1, settings) as (address,):
                answer |= {each.__name__: play(each, address) for each in scenarios}
    if wanted.of_cluster:
        with brokers(CLUSTER_NODES, SETTINGS) as addresses:
            answer |= {each.__name__: play_in_cluster(each, addresses) for each in wanted.of_cluster}
    if wanted.of_users:
        with broker_with_users() as address:
            answer |= {each.__name__: play(each, address, ROOT) for each in wanted.of_users}
    return answer


@contextmanager
def _kafka(nodes: int, settings: Mapping[str, str]) -> Iterator[list[str]]:
    with kafka_brokers(kafka_jars(), settings, nodes) as addresses:
        yield addresses


@contextmanager
def _kraft(nodes: int, settings: Mapping[str, str]) -> Iterator[list[str]]:
    of_ours = kraft_that_asks() if settings is PUSH_SETTINGS else Cluster(nodes, overrides=settings)
    with of_ours as cluster:
        yield cluster.kafka_bootstrap_servers.split(",")


@contextmanager
def _kraft_with_users() -> Iterator[str]:
    with kraft_with_users() as cluster:
        yield cluster.kafka_bootstrap_servers


def _unneeded(comparisons: Sequence[Comparison]) -> list[Deliberate]:
    needed = [deliberate for each in comparisons for _, deliberate in each.explained]
    return [each for each in DELIBERATE if each not in needed]


def _print(comparisons: Sequence[Comparison], unneeded: Sequence[Deliberate]) -> None:
    width = max((len(each.scenario) for each in comparisons), default=0)
    for each in comparisons:
        same = "same" if not each.unexplained and not each.explained else ""
        explained = f"{len(each.explained)} differences explained" if each.explained else ""
        unexplained = f"{len(each.unexplained)} DIFFERENCES" if each.unexplained else ""
        answer = ", ".join(filter(None, (same, unexplained, explained)))
        print(f"{each.scenario:{width}}  {each.answers:>4} answers  {answer}")
        for line in _by_version(each.unexplained):
            print(f"    {line}")
    print("\nexplained:")
    reasons = Counter(deliberate.reason for each in comparisons for _, deliberate in each.explained)
    for reason, count in reasons.items():
        print(f"  {count:>4} x {reason}")
    for deliberate in unneeded:
        print(f"  NOT NEEDED: {deliberate.scenarios} / {deliberate.places}: {deliberate.reason}")
    print(f"\n{sum(each.answers for each in comparisons)} answers compared")


def _by_version(differences: Sequence[Difference]) -> list[str]:
    """Report a result that several versions share once, after their numbers."""
    versions: dict[str, list[str]] = {}
    for difference in differences:
        found = re.match(r"v(\d+)\b:? ?", str(difference))
        number, rest = (found[1], str(difference)[found.end() :]) if found else ("", str(difference))
        versions.setdefault(rest, []).append(number)
    return [f"v{','.join(numbers)} {rest}" if numbers[0] else rest for rest, numbers in versions.items()]


if __name__ == "__main__":
    sys.exit(main())
