from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from kraft.quorum.journal import DIRECTORY_NAME, QuorumJournal
from kraft.quorum.membership import Membership
from kraft.runtime.disk import RealDisk
from kraft.server.config.loading import load
from kraft.server.config.node_config import NodeConfig
from kraft.server.controller.quorum_growth import check_source, copy_log, leave_quorum
from kraft.server.identity import storage
from kraft.server.identity.storage import DirectoryLock, StorageError

CLUSTER = "kJ2Yk0mVT0ma0wV2Yk0mVQ"
TERM, ENTRIES = 4, 6
ALONE = Membership(node_id=1, incarnation=b"1" * 16).joining({1: b"1" * 16})
LEFT = Membership(node_id=2, incarnation=b"2" * 16)


def node(directory: Path, node_id: int, *, voters: int = 3, cluster_id: str = CLUSTER) -> NodeConfig:
    """Return the configuration of a formatted node."""
    named = ",".join(f"{voter}@localhost:{9000 + voter}" for voter in range(1, voters + 1))
    file = directory / f"node-{node_id}.properties"
    file.write_text(
        f"process.roles=broker,controller\nnode.id={node_id}\ncluster.id={cluster_id}\n"
        f"listeners=GRPC://localhost:{9100 + node_id},CONTROLLER://localhost:{9000 + node_id}\n"
        f"controller.quorum.voters={named}\nlog.dirs={directory / f'data-{node_id}'}\n"
    )
    config = load(file)
    storage.format(config, cluster_id)
    return config


def with_log(config: NodeConfig, membership: Membership | None = ALONE, entries: int = ENTRIES) -> NodeConfig:
    """Give the node a metadata log, with a snapshot beside it."""
    folder = config.metadata_log_dir / "__cluster_metadata"
    journal = QuorumJournal(folder, RealDisk())
    journal.setCurrentTerm(TERM, config.node_id)
    for index in range(1, entries + 1):
        journal.add(b"entry %d" % index, index, TERM)
    if membership is not None:
        journal.set_membership(membership)
    journal.sync()
    journal.close()
    (folder / "controller").mkdir()
    (folder / "controller" / "a.checkpoint").write_bytes(b"a snapshot")
    return config


def append_alone(config: NodeConfig, index: int, *, term: int) -> None:
    """Add what a controller stored that went on alone."""
    journal = QuorumJournal(config.metadata_log_dir / "__cluster_metadata", RealDisk())
    journal.setCurrentTerm(term, config.node_id)
    journal.add(b"later", index, term)
    journal.sync()
    journal.close()


def journal_of(config: NodeConfig) -> QuorumJournal:
    journal = QuorumJournal(config.metadata_log_dir / "__cluster_metadata", RealDisk())
    journal.close()
    return journal


def membership_of(config: NodeConfig) -> Membership:
    membership = journal_of(config).membership
    assert membership is not None
    return membership


def refusal(act: Callable[[], object]) -> str:
    with pytest.raises(StorageError) as refused:
        act()
    text = str(refused.value)
    assert "\n" not in text
    return text


def test_a_controller_that_leaves_its_quorum_keeps_its_log_and_its_vote(tmp_path: Path) -> None:
    old = with_log(node(tmp_path, 1))
    left = leave_quorum(old)
    assert (left.entries, left.voters, left.changed) == (ENTRIES, (1, 2, 3), True)
    journal, membership = journal_of(old), membership_of(old)
    assert (journal.last_index, journal.getCurrentTerm(), journal.getVotedForNodeId()) == (ENTRIES, TERM, 1)
    assert membership.is_new
    assert not membership.may_vote_in(TERM + 1)
    # The quorum that it left never hears of it again.
    assert membership.incarnation != ALONE.incarnation
    assert not leave_quorum(old).changed
    assert membership_of(old) == membership


def test_each_new_controller_gets_the_log_as_another_incarnation(tmp_path: Path) -> None:
    old = with_log(node(tmp_path, 1))
    leave_quorum(old)
    new = [node(tmp_path, 2), node(tmp_path, 3)]
    for config in new:
        assert copy_log(config, old.metadata_log_dir).entries == ENTRIES
        journal = journal_of(config)
        assert [(body, index) for body, index, _ in journal[:]] == [(b"entry %d" % i, i) for i in range(1, ENTRIES + 1)]
        # Its vote in that term counts as given to the controller that led then.
        assert (journal.getCurrentTerm(), journal.getVotedForNodeId()) == (TERM, 1)
        folder = config.metadata_log_dir / "__cluster_metadata"
        assert (folder / "controller" / "a.checkpoint").read_bytes() == b"a snapshot"
        assert sorted(os.listdir(folder)) == [DIRECTORY_NAME, "controller"]
        assert membership_of(config).node_id == config.node_id
        assert membership_of(config).is_new
    incarnations = {membership_of(config).incarnation for config in (old, *new)}
    assert len(incarnations) == 3


def test_a_copy_is_complete_or_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = with_log(node(tmp_path, 1)), node(tmp_path, 2)
    leave_quorum(old)

    def fails(_from: object, _to: object) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr("kraft.server.controller.quorum_growth.os.rename", fails)
        assert "run it again" in refusal(lambda: copy_log(new, old.metadata_log_dir))
    assert not (new.metadata_log_dir / "__cluster_metadata" / DIRECTORY_NAME).exists()
    copy_log(new, old.metadata_log_dir)
    assert journal_of(new).last_index == ENTRIES


def test_a_log_outside_of_a_quorum_is_replaced_and_that_of_a_member_is_not(tmp_path: Path) -> None:
    old, new = with_log(node(tmp_path, 1)), node(tmp_path, 2)
    leave_quorum(old)
    copy_log(new, old.metadata_log_dir)
    first = membership_of(new).incarnation
    copy_log(new, old.metadata_log_dir)
    assert membership_of(new).incarnation != first
    member = with_log(node(tmp_path, 3), Membership(node_id=3, incarnation=b"3" * 16).joining({1: b"1" * 16}))
    text = refusal(lambda: copy_log(member, old.metadata_log_dir))
    assert "belongs to a quorum: it gets what it lacks from the others" in text
    assert journal_of(member).last_index == ENTRIES


def test_a_newer_log_is_never_replaced_by_an_older_one(tmp_path: Path) -> None:
    old, new = with_log(node(tmp_path, 1)), node(tmp_path, 2)
    leave_quorum(old)
    copy_log(new, old.metadata_log_dir)
    # The old controller went on alone, and then left its quorum again.
    append_alone(old, 7, term=TERM)
    text = refusal(lambda: copy_log(old, new.metadata_log_dir))
    assert f"is newer than that in {new.metadata_log_dir / '__cluster_metadata'}" in text
    assert "entry 7 of term 4, not at entry 6 of term 4" in text
    assert (journal_of(old).last_index, journal_of(new).last_index) == (7, 6)
    copy_log(new, old.metadata_log_dir)
    assert journal_of(new).last_index == 7


def test_the_term_says_first_which_log_is_newer(tmp_path: Path) -> None:
    longer, later = with_log(node(tmp_path, 1), entries=8), with_log(node(tmp_path, 2), LEFT, entries=6)
    leave_quorum(longer)
    append_alone(later, 7, term=TERM + 1)
    assert "is newer than that in" in refusal(lambda: copy_log(later, longer.metadata_log_dir))
    copy_log(longer, later.metadata_log_dir)
    assert journal_of(longer).last_index == 7


def test_nothing_is_copied_from_a_controller_that_is_in_its_quorum_or_runs(tmp_path: Path) -> None:
    old, new = with_log(node(tmp_path, 1)), node(tmp_path, 2)
    text = refusal(lambda: copy_log(new, old.metadata_log_dir))
    assert "has not left its quorum: run 'kraft storage grow-quorum -c FILE'" in text
    with DirectoryLock() as running:
        running.acquire(old.metadata_log_dir)
        assert "is in use by another process" in refusal(lambda: leave_quorum(old))
        for copy in (copy_log, check_source):
            text = refusal(partial(copy, new, old.metadata_log_dir))
            assert text == "the source, node 1, is running: stop it with 'kraft server stop -c' and its file"
    assert membership_of(old) == ALONE
    assert not (new.metadata_log_dir / "__cluster_metadata").exists()


def test_what_cannot_be_the_source_of_a_copy_is_refused(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    other = with_log(node(elsewhere, 1, cluster_id="AAAAAAAAAAAAAAAAAAAAAA"))
    new = node(tmp_path, 2)
    assert "belongs to cluster AAAAAAAAAAAAAAAAAAAAAA" in refusal(lambda: copy_log(new, other.metadata_log_dir))
    assert "is not the directory of a node" in refusal(lambda: copy_log(new, tmp_path / "nowhere"))
    assert "is this node's own directory" in refusal(lambda: copy_log(new, new.metadata_log_dir))
    without_log = node(tmp_path, 1)
    assert "holds no metadata log" in refusal(lambda: copy_log(new, without_log.metadata_log_dir))


def test_a_quorum_that_is_formed_needs_no_copy_also_while_it_runs(tmp_path: Path) -> None:
    formed = ALONE.joining({1: b"1" * 16, 2: b"2" * 16, 3: b"3" * 16})
    old, new = with_log(node(tmp_path, 1), formed), node(tmp_path, 2)
    with DirectoryLock() as running:
        running.acquire(old.metadata_log_dir)
        text = refusal(lambda: check_source(new, old.metadata_log_dir))
    assert text.startswith("the quorum [1, 2, 3] is formed: no copy is needed")


def test_a_node_that_was_in_no_quorum_is_not_taken_for_the_old_controller(tmp_path: Path) -> None:
    old = with_log(node(tmp_path, 1))
    formatted, empty, copied = node(tmp_path, 2), node(tmp_path, 3), node(tmp_path, 4, voters=4)
    started = QuorumJournal(empty.metadata_log_dir / "__cluster_metadata", RealDisk())
    started.set_membership(Membership(node_id=3, incarnation=b"3" * 16))
    started.sync()
    started.close()
    leave_quorum(old)
    copy_log(copied, old.metadata_log_dir)
    for config in (formatted, empty, copied):
        text = refusal(partial(leave_quorum, config))
        assert text == f"node {config.node_id} has never been in a quorum: name the file of the old controller"
    assert not leave_quorum(old).changed


@pytest.mark.parametrize(
    ("voters", "membership", "message"),
    [
        (1, ALONE, "name this node and the new ones, in the files of all nodes"),
        (3, None, "start and stop its node once, with controller.quorum.voters as it was"),
        (
            3,
            Membership(node_id=1, incarnation=b"1" * 16).joining({1: b"1" * 16, 2: b"2" * 16}),
            "belongs to a quorum of the nodes [1, 2]: only a single controller can grow; to remove or replace",
        ),
    ],
)
def test_who_cannot_leave_a_quorum_is_told_why(
    tmp_path: Path, voters: int, membership: Membership | None, message: str
) -> None:
    old = with_log(node(tmp_path, 1, voters=voters), membership)
    assert message in refusal(lambda: leave_quorum(old))
    assert journal_of(old).membership == membership
