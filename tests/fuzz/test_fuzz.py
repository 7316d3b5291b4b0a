"""A short, deterministic run of the fuzz targets, and tests of the fuzzer."""

from __future__ import annotations

import subprocess
import sys
from itertools import islice
from pathlib import Path
from random import Random

import pytest

from tests.fuzz.__main__ import ROOT
from tests.fuzz.targets import targets
from tests.support.mutation import mutated

INPUTS = 2_000
SLOW = {"recovery": 2, "verification": 2, "group-requests": 8, "tls-bytes": 4}
"""Targets that get only a part of the inputs: each opens a whole log twice, sets up a coordinator, or shakes hands."""
TARGETS = targets()
WAIT_S = 240


@pytest.mark.parametrize("name", TARGETS)
def test_no_input_makes_a_decoder_fail_in_a_way_it_does_not_document(name: str) -> None:
    target = TARGETS[name]
    inputs = INPUTS // SLOW.get(name, 1)
    for number, data in enumerate(islice(mutated(target.seeds(), Random(name)), inputs)):
        try:
            target.run(data)
        except Exception as error:
            raise AssertionError(f"input {number} of target {name}: {data.hex()}") from error


def test_the_same_seed_makes_the_same_inputs() -> None:
    first, second = (list(islice(mutated((b"abc", b"defg"), Random(7)), 500)) for _ in range(2))
    assert first == second
    assert first[:2] == [b"abc", b"defg"]
    assert len(set(first)) > 300


def fuzz(*arguments: str, module: str = "tests.fuzz") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )


def one_failing_target(body: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Fuzzes a target of that body, as `tests.fuzz.one_target` fuzzes the real ones."""
    program = (
        "import sys, time\n"
        "from tests.fuzz import guard, one_target, targets\n"
        "guard.INPUT_SECONDS_MAX = 0.2\n"
        "def run(data):\n"
        f"    {body}\n"
        "targets.targets = lambda: {'bad': targets.Target(name='bad', run=run, make_seeds=lambda: (b'seed',))}\n"
        "sys.exit(one_target.main())\n"
    )
    arguments = ["bad", "--mode", "random", "--seconds", "20", "--inputs", "50", "--seed", "1", "--folder", str(folder)]
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )


@pytest.mark.parametrize("mode", ["random", pytest.param("atheris", marks=pytest.mark.slow)])
def test_a_run_prints_how_many_inputs_it_tried(mode: str, tmp_path: Path) -> None:
    if mode == "atheris":
        pytest.importorskip("atheris")
    crashes = tmp_path / "crashes"
    # Under atheris everything that is imported is instrumented first, for each target.
    names = ["control-record", "time-index"] if mode == "random" else ["control-record"]
    arguments = ["--mode", mode, "--seconds", "120", "--inputs", "300", "--crashes", str(crashes)]
    finished = fuzz(*arguments, *(argument for name in names for argument in ("--target", name)))
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert f"mode {mode}, seed 1" in finished.stdout
    assert f"{len(names)} targets, {300 * len(names)} inputs tried, 0 crashes" in finished.stdout
    assert not crashes.exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "output"),
    [
        ("raise KeyError('seed')", "KeyError: 'seed'"),
        ("bytes(100 << 20)", "MemoryError"),
        ("time.sleep(5)", "TooSlow: more than 0.2 s for 4 bytes"),
        ("assert data != b'seed', 'a property'", "AssertionError: a property"),
    ],
)
def test_whatever_is_not_documented_counts_as_a_crash_and_its_input_is_kept(
    body: str, output: str, tmp_path: Path
) -> None:
    finished = one_failing_target(body, tmp_path)
    assert finished.returncode == 1
    assert output in finished.stderr
    assert "inputs tried: 1" in finished.stdout
    assert (tmp_path / "crash-at-random").read_bytes() == b"seed"


def test_allocations_in_bounds_and_documented_refusals_are_no_crash(tmp_path: Path) -> None:
    finished = one_failing_target("bytes(40 << 20)", tmp_path)
    assert (finished.returncode, finished.stdout) == (0, "inputs tried: 50\n"), finished.stderr


def test_an_unknown_target_is_refused_with_the_known_ones() -> None:
    finished = fuzz("--target", "nothing")
    assert finished.returncode == 2
    assert "batch-zstd" in finished.stderr
