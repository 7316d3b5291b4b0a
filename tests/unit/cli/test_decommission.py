from __future__ import annotations

from collections.abc import Callable

import pytest

from kraft.cli.decommission import interruption
from tests.unit.cli.shell import Shell


def test_an_interruption_says_what_was_done_and_how_to_go_on(kraft: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    assert interruption(3, None) == "Interrupted: nothing was moved off broker 3"

    def interrupted(
        _: object, broker_id: int, deadline_s: float, report: Callable[[int], None], throttle: int | None
    ) -> int:
        report(12)
        raise KeyboardInterrupt

    monkeypatch.setattr("kraft.cli.decommission.empty", interrupted)
    assert kraft.run("brokers", "decommission", "3", "--bootstrap-server", "broker-1:9094") == 130
    assert kraft.err == (
        "Broker 3: 12 replicas left to move.\n"
        "Interrupted: broker 3 has 12 replicas left: do not stop it yet. Moves that have begun continue, others do not "
        "begin: run the command again to go on, or see kraft topics reassign --list\n"
    )
