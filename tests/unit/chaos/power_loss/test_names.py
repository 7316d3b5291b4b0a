from __future__ import annotations

from random import Random

import pytest

from chaos.nemesis.power_loss.loss import Loss
from chaos.nemesis.power_loss.names import ROOT, Names

SEEDS = range(300)
DIRECTORY, FILE, OTHER = 2, 3, 4


def synced() -> Names:
    """Return a synced disk with one directory and a file in it."""
    names = Names()
    names.link((ROOT, "d"), DIRECTORY)
    names.link((DIRECTORY, "f"), FILE)
    names.sync(ROOT, names.mark)
    names.sync(DIRECTORY, names.mark)
    assert names.unsynced == 0
    return names


def test_a_path_leads_to_a_node_or_to_none() -> None:
    names = synced()
    assert names.walk([]) == ROOT
    assert names.walk(["d"]) == DIRECTORY
    assert names.walk(["d", "f"]) == FILE
    assert names.walk(["x", "f"]) is names.walk(["d", "f", "g"]) is None
    assert (names.list(ROOT), names.list(DIRECTORY)) == (["d"], ["f"])


def test_names_are_lost_until_their_directory_is_synced() -> None:
    names = synced()
    names.link((DIRECTORY, "new"), OTHER)
    names.unlink((DIRECTORY, "f"))
    names.sync(ROOT, names.mark)
    assert (names.list(DIRECTORY), names.unsynced) == (["new"], 2)
    names.lose_power(Loss.ALL, Random(0))
    assert (names.list(DIRECTORY), names.unsynced) == (["f"], 0)


def test_a_sync_covers_what_had_been_changed_when_its_mark_was_taken() -> None:
    names = synced()
    names.link((DIRECTORY, "first"), OTHER)
    mark = names.mark
    names.link((DIRECTORY, "second"), OTHER)
    names.sync(DIRECTORY, mark)
    names.lose_power(Loss.ALL, Random(0))
    assert names.list(DIRECTORY) == ["f", "first"]


def test_what_stands_in_a_directory_whose_own_name_was_not_synced_is_lost_with_it() -> None:
    names = Names()
    names.link((ROOT, "d"), DIRECTORY)
    names.link((DIRECTORY, "f"), FILE)
    names.sync(DIRECTORY, names.mark)
    names.lose_power(Loss.ALL, Random(0))
    assert names.list(ROOT) == names.list(DIRECTORY) == []


@pytest.mark.parametrize("loss", [Loss.TAIL, Loss.PAGES])
def test_a_rename_is_one_step_whatever_survives(loss: Loss) -> None:
    found = set()
    for seed in SEEDS:
        names = synced()
        names.link((DIRECTORY, "tmp"), OTHER)
        names.sync(DIRECTORY, names.mark)
        names.rename((DIRECTORY, "tmp"), (DIRECTORY, "f"))
        names.lose_power(loss, Random(seed))
        found.add((names.find((DIRECTORY, "tmp")), names.find((DIRECTORY, "f"))))
    assert found == {(OTHER, FILE), (None, OTHER)}


@pytest.mark.parametrize(("loss", "expected"), [(Loss.TAIL, {"", "a", "ab"}), (Loss.PAGES, {"", "a", "b", "ab"})])
def test_of_several_changes_the_first_or_any_survive(loss: Loss, expected: set[str]) -> None:
    found = set()
    for seed in SEEDS:
        names = Names()
        names.link((ROOT, "a"), FILE)
        names.link((ROOT, "b"), OTHER)
        names.lose_power(loss, Random(seed))
        found.add("".join(names.list(ROOT)))
    assert found == expected


def test_a_rename_between_directories_is_durable_once_either_of_them_is_synced() -> None:
    for directory in (ROOT, DIRECTORY):
        names = synced()
        names.rename((DIRECTORY, "f"), (ROOT, "moved"))
        names.sync(directory, names.mark)
        names.lose_power(Loss.ALL, Random(0))
        assert (names.list(ROOT), names.list(DIRECTORY)) == (["d", "moved"], [])


def test_a_node_is_alive_as_long_as_a_loss_may_bring_its_name_back() -> None:
    names = synced()
    names.unlink((DIRECTORY, "f"))
    names.unlink((ROOT, "d"))
    assert names.forget_unreachable() == {ROOT, DIRECTORY, FILE}
    names.sync(ROOT, names.mark)
    assert names.forget_unreachable() == {ROOT}
    # The removal inside of what is gone is nobody's to sync any more.
    assert names.unsynced == 0
