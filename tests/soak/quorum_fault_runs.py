"""`python -m tests.soak.quorum_fault_runs`: controllers repeatedly killed, paused and cut off under load."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import quantiles
from typing import Annotated, Final

import typer

from chaos.toxiproxy import ToxiproxyFailed, ToxiproxyMissing
from kraft.testing import NodeFailed
from tests.soak import stale_leader_runs, voter_kill_runs
from tests.soak.fault_runs import Seed, Times, chosen, judged, say
from tests.soak.stale_leader_runs import StaleLeader, StaleLeaders
from tests.soak.voter_kill_runs import ControllerKill, EntireKill

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, help="Faults of the controllers.")

FAILURES: Final = (NodeFailed, ToxiproxyMissing, ToxiproxyFailed)


@app.command()
def kill_all(times: Times = 50, seed: Seed = None) -> None:
    """kill -9 of all three nodes at once: every acknowledged change and record is there, and every node starts."""
    seed = chosen(seed)

    def tell(made: EntireKill) -> None:
        say(
            f"changed after {made.changed_s:.2f} s, ready after {made.ready_s:.2f} s: "
            f"{made.acknowledged_changes:,} changes acknowledged; records: {made.contents}"
        )

    with judged(*FAILURES):
        kills = voter_kill_runs.kill_all(times=times, seed=seed, tell=tell)
        print(
            f"{len(kills)} times kill -9 of all 3 nodes at once, seed {seed}; every node started every time",
            f"{kills[-1].acknowledged_changes:,} changes of the metadata acknowledged, 0 lost",
            f"{kills[-1].contents.acknowledged:,} records acknowledged, 0 lost, 0 repeated",
            f"from the start to the first new commit: {_figures([made.changed_s for made in kills])}",
            f"from the start until every node serves: {_figures([made.ready_s for made in kills])}",
            sep="\n",
        )


@app.command()
def kill_controller(
    times: Times = 100,
    separate: Annotated[bool, typer.Option("--separate", help="Three controllers and three brokers.")] = False,
    seed: Seed = None,
) -> None:
    """kill -9 of the active controller: another takes over soon, and no produce fails."""
    seed = chosen(seed)

    def tell(made: ControllerKill) -> None:
        gaps = " ".join(f"{gap_s:.2f}" for gap_s in made.gaps_s)
        say(
            f"node {made.node_id}: elected {made.elected_s:.2f} s, changed {made.changed_s:.2f} s, admin "
            f"{made.admin_changed_s:.2f} s, gaps {gaps} s, back {made.back_s:.2f} s"
        )

    with judged(*FAILURES):
        found = voter_kill_runs.kill_controller(times=times, seed=seed, separate=separate, tell=tell)
        kills = found.kills
        nodes = "3 controllers, with 3 brokers beside them" if separate else "3 nodes, each broker and controller"
        print(
            f"{len(kills)} times kill -9 of the active one of {nodes}, seed {seed}",
            f"{found.acknowledged_changes:,} changes of the metadata acknowledged, 0 lost",
            f"{found.contents.acknowledged:,} records acknowledged, none given up, 0 lost, 0 repeated",
            f"from the kill to the next leader: {_figures([made.elected_s for made in kills])}",
            f"from the kill to the next commit: {_figures([made.changed_s for made in kills])}",
            f"the same through the admin client: {_figures([made.admin_changed_s for made in kills])}",
            f"longest produce gap of any partition: {_figures([made.gaps_s[-1] for made in kills])}",
            f"longest produce gap of the least concerned: {_figures([made.gaps_s[0] for made in kills])}",
            f"started again and in sync: {_figures([made.back_s for made in kills])}",
            f"changes without an outcome: {found.change_failures or 'none'}",
            sep="\n",
        )


@app.command()
def pause_leader(times: Times = 20, seed: Seed = None) -> None:
    """SIGSTOP of the active controller, SIGCONT when another leads: its stale decisions have no effect."""
    seed = chosen(seed)
    with judged(*FAILURES):
        _print_stale(stale_leader_runs.pause_leader(times=times, seed=seed, tell=_tell_stale), seed)


@app.command()
def isolate_leader(times: Times = 20, seed: Seed = None) -> None:
    """The active controller cut off from all others, but not from clients: its stale decisions have no effect."""
    seed = chosen(seed)
    with judged(*FAILURES):
        _print_stale(stale_leader_runs.isolate_leader(times=times, seed=seed, tell=_tell_stale), seed)


def _tell_stale(made: StaleLeader) -> None:
    say(
        f"node {made.node_id} {made.fault}: others changed after {made.changed_s:.2f} s, it claimed to lead for "
        f"{made.claimed_s:.2f} s; asked for {made.asked}, in sync again after {made.healed_s:.2f} s"
    )


def _print_stale(all_of_them: StaleLeaders, seed: int) -> None:
    found = all_of_them.found
    kinds = Counter(made.fault for made in found)
    print(
        f"{len(found)} times the active one of 3 nodes {' or '.join(f'{kind} ({n})' for kind, n in kinds.items())}, "
        f"seed {seed}",
        f"{sum(made.asked for made in found):,} changes asked of it when it led no more: 0 acknowledged, 0 appeared",
        f"fencings that it meant to make: {sum(made.fencings for made in found)}, that were made: 0; "
        "all controllers held the same every time",
        f"{all_of_them.acknowledged_changes:,} changes of the metadata acknowledged, 0 lost",
        f"{all_of_them.contents.acknowledged:,} records acknowledged, none given up, 0 lost, 0 repeated",
        f"from the fault to the next commit: {_figures([made.changed_s for made in found])}",
        f"it said that it led, once replaced or cut off: {_figures([made.claimed_s for made in found])}",
        f"in sync again: {_figures([made.healed_s for made in found])}",
        f"changes without an outcome: {all_of_them.change_failures or 'none'}",
        sep="\n",
    )
    longest_s = max(made.claimed_s for made in found)
    assert longest_s <= stale_leader_runs.CLAIM_S_MAX, f"one said for {longest_s:.1f} s that it led"


def _figures(seconds: Sequence[float]) -> str:
    cuts = quantiles(seconds, n=100, method="inclusive") if len(seconds) > 1 else [seconds[0]] * 99
    return (
        f"min {min(seconds):.2f}, p50 {cuts[49]:.2f}, p99 {cuts[98]:.2f}, max {max(seconds):.2f} s (n={len(seconds)})"
    )


if __name__ == "__main__":
    app(prog_name="python -m tests.soak.quorum_fault_runs")
