"""`kraft groups lag` for groups that nothing is known of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from kraft.model.errors import ErrorCode, Refusal
from kraft.model.group_lags import GroupLag
from kraft.rpc.peers import Unreachable
from kraft.server.handlers.group_lags import group_lag, refused_group
from tests.unit.cli.shell import Shell

BILLING = group_lag("billing", [])


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
    class FakeAdmin:
        def describe_group_lags(self, group_ids: Sequence[str]) -> list[GroupLag]:
            return [BILLING, refusal]

    @contextmanager
    def opened(*_: object) -> Iterator[FakeAdmin]:
        yield FakeAdmin()

    monkeypatch.setattr("kraft.cli.groups.lag.open_admin", opened)
    assert kraft.run("groups", "lag", "billing", refusal.group_id, "--output", "json") == 1
    assert '"group": "billing"' in kraft.out
    assert kraft.err == f"kraft: {said}\n"


def test_whoever_watches_is_told_of_a_broker_that_is_down_and_watches_on(
    kraft: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    down = Unreachable("broker-2:9094", "no broker answers")
    answers: Iterator[list[GroupLag] | BaseException] = iter([[BILLING], down, [BILLING], KeyboardInterrupt()])

    class FakeAdmin:
        def describe_group_lags(self, group_ids: Sequence[str]) -> list[GroupLag]:
            answer = next(answers)
            if isinstance(answer, BaseException):
                raise answer
            return answer

    @contextmanager
    def opened(*_: object) -> Iterator[FakeAdmin]:
        yield FakeAdmin()

    monkeypatch.setattr("kraft.cli.groups.lag.open_admin", opened)
    assert kraft.run("groups", "lag", "--watch", "--interval-ms", "100") == 130
    rows = [line.split() for line in kraft.out.splitlines() if line.startswith("billing")]
    assert rows == [["billing", "OK", "-", "-", "0", "0%"]] * 2, "the user may describe none of its topics"
    assert kraft.err == f"{down}\n"
