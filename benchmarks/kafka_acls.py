"""Kafka's StandardAuthorizer with the same ACLs and the same questions, in a JVM of its own."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from msgspec import Struct

from kraft.metadata.acls import AclEntry
from kraft.metadata.authorizer import Requester
from kraft.model.access import Operation, ResourceType

PROGRAM: Final = Path(__file__).with_name("DecisionsOfKafka.java")
DEADLINE_S: Final = 240.0

Question = tuple[Requester, Operation, ResourceType, str]


class KafkasDecisions(Struct, frozen=True, kw_only=True):
    load_s: float
    size_bytes: int
    first_us: float
    """A decision, before the JVM has compiled what it needs."""

    decision_us: float
    """A decision afterwards. Kafka keeps none, so this is the cost of each."""

    are_allowed: list[bool]


def kafkas_decisions(jars: Path, entries: Iterable[AclEntry], questions: Sequence[Question]) -> KafkasDecisions:
    """Raises subprocess.CalledProcessError, and TimeoutExpired."""
    with TemporaryDirectory(prefix="kraft-acls-") as directory:
        of_acls, of_questions = Path(directory, "acls"), Path(directory, "questions")
        of_acls.write_text("".join(map(_line, entries)))
        of_questions.write_text("".join(map(_question, questions)))
        options = ("-Xmx2g", "-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error")
        command = ["java", *options, "-cp", f"{jars}/*", str(PROGRAM), str(of_acls), str(of_questions)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=DEADLINE_S)
    load_s, size_bytes, first_us, decision_us, decided = done.stdout.split()
    assert len(decided) == len(questions)
    return KafkasDecisions(
        load_s=float(load_s),
        size_bytes=int(size_bytes),
        first_us=float(first_us),
        decision_us=float(decision_us),
        are_allowed=[each == "A" for each in decided],
    )


def _line(entry: AclEntry) -> str:
    of_resource = f"{entry.resource_type.name}\t{entry.resource_name}\t{entry.pattern_type.name}"
    return f"{of_resource}\t{entry.principal}\t{entry.host}\t{entry.operation.name}\t{entry.permission.name}\n"


def _question(question: Question) -> str:
    (principal, host), operation, resource_type, name = question
    return f"{principal}\t{host}\t{operation.name}\t{resource_type.name}\t{name}\n"
