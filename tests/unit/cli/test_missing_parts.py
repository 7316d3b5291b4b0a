"""Lists that a broker that does not answer has its part in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from kraft.client import ListedGroup, TransactionListing
from kraft.client.cluster.any_broker import PartMissing
from kraft.rpc.peers import Unreachable
from tests.unit.cli.shell import Shell

BILLING = ListedGroup(group_id="billing", type="classic", protocol_type="consumer", state="Empty")
COPIES = TransactionListing(transactional_id="billing", coordinator_id=1, producer_id=7, state="Ongoing")


@pytest.mark.parametrize("options", [[], ["--output", "json"]])
@pytest.mark.parametrize(("command", "known"), [("groups", BILLING), ("transactions", COPIES)])
def test_what_the_other_brokers_know_is_printed_before_the_error(
    kraft: Shell,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    known: ListedGroup | TransactionListing,
    options: list[str],
) -> None:
    class FakeAdmin:
        def list_groups(self, **_: object) -> list[object]:
            raise PartMissing([Unreachable("broker-2:9094", "no answer")], [known], command)

        list_transactions = list_groups

    @contextmanager
    def opened(*_: object) -> Iterator[FakeAdmin]:
        yield FakeAdmin()

    monkeypatch.setattr(f"kraft.cli.{command}.commands.open_admin", opened)
    assert kraft.run(command, "list", *options) == 1
    assert "billing" in kraft.out
    assert f"no answer: the {command} that it coordinates are missing" in kraft.err
