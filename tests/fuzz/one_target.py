"""`python -m tests.fuzz.one_target`: fuzzes one target in this process. Started by `python -m tests.fuzz`.

Prints the number of inputs. After a crash, its input is in the given folder, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from pathlib import Path
from random import Random

from tests.fuzz.guard import INPUT_SECONDS_MAX, MemoryGuard, run_in_time
from tests.support.mutation import INPUT_BYTES_MAX, mutated

PACKAGES = ("kraft", "tests.fuzz")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.one_target")
    parser.add_argument("target")
    parser.add_argument("--mode", choices=["atheris", "random"], required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--inputs", type=int, required=True, help="at most so many; 0 for no bound")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--folder", type=Path, required=True, help="for seeds and for inputs that crash")
    options = parser.parse_args()
    if options.mode == "atheris":
        return _with_atheris(options.target, options.seconds, options.inputs, options.seed, options.folder)
    return _at_random(options.target, options.seconds, options.inputs, options.seed, options.folder)


def _at_random(name: str, seconds: float, inputs: int, seed: int, folder: Path) -> int:
    from tests.fuzz.targets import targets

    target = targets()[name]
    guard = MemoryGuard()
    tried = 0
    deadline = time.monotonic() + seconds
    for data in mutated(target.seeds(), Random(seed)):
        guard.renew()
        try:
            run_in_time(target.run, data)
        except BaseException:  # noqa: BLE001  Any exception is a crash, and ends this process.
            guard.lift()
            traceback.print_exc()
            (folder / "crash-at-random").write_bytes(data)
            print(f"inputs tried: {tried + 1}", flush=True)
            return 1
        tried += 1
        if tried == inputs or time.monotonic() > deadline:
            break
    print(f"inputs tried: {tried}", flush=True)
    return 0


def _with_atheris(name: str, seconds: float, inputs: int, seed: int, folder: Path) -> int:
    import atheris

    # The branches of modules that are imported here are counted, which guides the fuzzer.
    with atheris.instrument_imports(include=list(PACKAGES)):
        from tests.fuzz.targets import interpreted_codec, targets
    for function in vars(interpreted_codec()).values():
        # It was loaded from its source by hand, so the import above did not instrument it.
        if getattr(function, "__module__", None) == interpreted_codec().__name__ and hasattr(function, "__code__"):
            atheris.instrument_func(function)
    target = targets()[name]
    corpus = folder / "corpus"
    corpus.mkdir()
    for number, data in enumerate(target.seeds()):
        (corpus / f"seed-{number}").write_bytes(data)
    guard = MemoryGuard()

    def run(data: bytes) -> None:
        guard.renew()
        try:
            target.run(data)
        except BaseException:
            guard.lift()
            raise

    arguments = [
        sys.argv[0],
        f"-max_total_time={max(1, round(seconds))}",
        f"-max_len={INPUT_BYTES_MAX}",
        f"-timeout={INPUT_SECONDS_MAX}",
        f"-seed={seed}",
        f"-artifact_prefix={folder}/",
        # The guard bounds the memory of each input; the fuzzer's own memory is not limited.
        "-rss_limit_mb=0",
        "-print_final_stats=1",
        "-verbosity=0",
        *([f"-runs={inputs}"] if inputs else []),
        str(corpus),
    ]
    atheris.Setup(arguments, run)
    atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())
