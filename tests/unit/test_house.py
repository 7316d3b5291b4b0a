"""The map names every room, the rules cover every room, and the house stands alone."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PURE = {"coordinator", "log", "metadata", "model", "replication", "wire"}
# How deep the map goes in these folders; elsewhere the folder itself is enough.
LEVELS = {"chaos": 2, "docs": 2, "kraft": 3, "spark_connector": 2, "tests": 2}


def tracked_files() -> list[Path]:
    """Files of the project as git sees them, new ones included; relative to its root."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout, so what belongs to the project is not known")
    command = ["git", "-c", "safe.directory=*", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listing = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=30).stdout.decode()
    return [Path(name) for name in listing.split("\0") if name and (ROOT / name).is_file()]


def tracked_folders() -> list[str]:
    """Every folder that the map has to name."""
    return sorted(
        {
            "/".join(file.parts[:level])
            for file in tracked_files()
            for level in range(1, min(len(file.parts) - 1, LEVELS.get(file.parts[0], 1)) + 1)
        }
    )


def packages_in(folder: Path) -> set[str]:
    return {path.parent.name for path in folder.glob("*/__init__.py")}


def pyproject() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_the_map_names_every_folder() -> None:
    architecture = (ROOT / "ARCHITECTURE.md").read_text()
    assert [folder for folder in tracked_folders() if f"`{folder}/`" not in architecture] == []


def test_the_map_names_no_folder_that_is_not_there() -> None:
    tokens = (ROOT / "ARCHITECTURE.md").read_text().split("`")[1::2]
    named = [token for token in tokens if token.endswith("/") and "<" not in token]
    assert [folder for folder in named if not (ROOT / folder).is_dir()] == []


def test_every_package_is_under_the_import_rules_and_under_mypy() -> None:
    packages = packages_in(ROOT)
    tools = pyproject()["tool"]
    assert packages <= set(tools["importlinter"]["root_packages"])
    assert packages <= set(tools["mypy"]["files"])


def test_every_pure_folder_is_held_to_it() -> None:
    contracts = {contract["id"]: contract for contract in pyproject()["tool"]["importlinter"]["contracts"]}
    pure = {f"kraft.{name}" for name in packages_in(ROOT / "kraft") & PURE}
    assert pure <= set(contracts["pure"]["source_modules"])


def test_every_folder_of_python_is_a_package() -> None:
    # A folder without __init__.py is left out of the wheel's type information and of the import rules.
    sources = {file.parent for file in tracked_files() if file.suffix == ".py" and file.parts[0] in packages_in(ROOT)}
    assert sorted(str(folder) for folder in sources if not (ROOT / folder / "__init__.py").exists()) == []


def test_nothing_points_outside_of_the_clone() -> None:
    # A path that climbs has to arrive at something that the clone holds.
    offending = []
    for file in tracked_files():
        text = (ROOT / file).read_text(encoding="utf-8", errors="replace")
        for path in re.findall(r"(?<![\w.])(?:\.\./)+[\w./-]*\w", text):
            target = (ROOT / file).parent / path
            if not target.exists() or not target.resolve().is_relative_to(ROOT):
                offending.append(f"{file}: {path}")
    assert offending == []


def test_what_tests_share_is_no_test() -> None:
    offending = []
    for file in (ROOT / "tests").rglob("*.py"):
        folder = file.relative_to(ROOT / "tests").parts[0]
        for module in re.findall(r"^\s*from tests\.([\w.]+) import ", file.read_text(), re.MULTILINE):
            names = module.split(".")
            allowed = {"support": {"support"}, "soak": {"soak", "support", "simulation"}}.get(folder, set(names))
            if names[-1].startswith("test_") or names[0] not in allowed:
                offending.append(f"{file.relative_to(ROOT)}: {module}")
    assert offending == []
