"""`kraft groups lag` for groups that nothing is known of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from kraft.client.cluster.any_broker import PartMissing
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.group_lags import GroupLag
from kraft.rpc.peers import Unreachable
from kraft.server.handlers.group_lags import group_lag, refused_group
from tests.unit.cli.shell import Shell

BILLING = group_lag("billing", [])


def answers(monkeypatch: pytest.MonkeyPatch, *looks: list[GroupLag] | BaseException) -> None:
    """Let each look of the command end so, one after the other."""
    left = iter(looks)

    class FakeAdmin:
        def describe_group_lags(self, group_ids: Sequence[str]) -> list[GroupLag]:
            answer = next(left)
            if isinstance(answer, BaseException):
                raise answer
            return answer

    @contextmanager
    def opened(*_: object) -> Iterator[FakeAdmin]:
        yield FakeAdmin()

    monkeypatch.setattr("kraft.cli.groups.lag.open_admin", opened)


def refused(group_id: str, code: ErrorCode, message: str) -> GroupLag:
    return refused_group(group_id, Refusal(code, message))


@pytest.mark.parametrize(
    ("refusal", "said"),
    [
        (
            refused("nobody", ErrorCode.GROUP_ID_NOT_FOUND, "there is no group 'nobody'"),
            "GROUP_ID_NOT_FOUND: there is no group 'nobody'",
        ),
        (
            refused("audit", ErrorCode.GROUP_AUTHORIZATION_FAILED, "you may not describe it"),
            "GROUP_AUTHORIZATION_FAILED: you may not describe it",
        ),
        (
            refused("audit", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "it is being loaded; retry"),
            "COORDINATOR_LOAD_IN_PROGRESS: it is being loaded; retry",
        ),
    ],
)
def test_a_group_that_is_not_known_is_not_said_to_be_missing(
    kraft: Shell, monkeypatch: pytest.MonkeyPatch, refusal: GroupLag, said: str
) -> None:
    answers(monkeypatch, [BILLING, refusal])
    assert kraft.run("groups", "lag", "billing", refusal.group_id, "--output", "json") == 1
    assert '"group": "billing"' in kraft.out
    assert kraft.err == f"kraft: {said}\n"


@pytest.mark.parametrize("watch", [[], ["--watch", "--interval-ms", "100"]])
def test_the_groups_of_the_brokers_that_answer_are_shown(
    kraft: Shell, monkeypatch: pytest.MonkeyPatch, watch: list[str]
) -> None:
    missing = PartMissing([Unreachable("broker-2:9094", "no answer")], [BILLING], "groups")
    answers(monkeypatch, *([[]] if watch else []), missing, KeyboardInterrupt())
    assert kraft.run("groups", "lag", *watch) == (130 if watch else 1)
    assert "billing" in kraft.out
    assert "broker-2:9094 cannot be reached: no answer: the groups that it coordinates are missing" in kraft.err


def test_whoever_watches_is_told_of_a_broker_that_is_down_and_watches_on(
    kraft: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    down = Unreachable("broker-2:9094", "no broker answers")
    answers(monkeypatch, [BILLING], down, [BILLING], KeyboardInterrupt())
    assert kraft.run("groups", "lag", "--watch", "--interval-ms", "100") == 130
    rows = [line.split() for line in kraft.out.splitlines() if line.startswith("billing")]
    assert rows == [["billing", "OK", "-", "-", "0", "0%"]] * 2, "the user may describe none of its topics"
    assert kraft.err == f"{down}\n"
