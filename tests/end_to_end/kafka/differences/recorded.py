"""Kafka's answers as files, so that ours are compared with them where there is no Java."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

DIRECTORY: Final = Path(__file__).parents[3] / "golden" / "kafka_answers"


def read(scenario: str) -> dict[str, Any]:
    answers: dict[str, Any] = json.loads(_file(scenario).read_text())
    return answers


def write(scenario: str, answers: dict[str, Any]) -> None:
    """An answer a line."""
    lines = [f"{json.dumps(label)}: {json.dumps(answer)}" for label, answer in answers.items()]
    _file(scenario).write_text("{\n" + ",\n".join(lines) + "\n}\n")


def recorded() -> set[str]:
    """The scenarios that there are files for."""
    return {file.stem for file in DIRECTORY.glob("*.json")}


def _file(scenario: str) -> Path:
    return DIRECTORY / f"{scenario}.json"
