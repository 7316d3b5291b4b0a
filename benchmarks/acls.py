"""`python -m benchmarks.acls`: what many ACLs cost: time to load, memory, decisions, and a change; beside Kafka."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from time import process_time
from typing import Annotated, Final, TypeVar

import typer

from benchmarks.kafka_acls import Question, kafkas_decisions
from benchmarks.report import Cell, Output, Report, print_report
from kraft.metadata.acls import NO_ACLS, AclEntry, Acls, AclsDraft, acl_record
from kraft.metadata.authorizer import Authorizer, Requester
from kraft.metadata.image import MetadataImage
from kraft.metadata.records import AclAdded, AclRecord
from kraft.model.access import Operation, PatternType, PermissionType, ResourceType
from kraft.rpc.metadata_codec import decode_records, encode_records
from kraft.server.cluster.metadata_snapshots import decode_image, encode_image
from tests.support.kafka.kafka_jars import fetched_kafka_jars

PRINCIPALS: Final = 1_000
TEAMS: Final = 37
ENTRY_RECORDS: Final = 800
"""Records in one entry of the metadata log, about."""

DECISIONS: Final = 19_000
"""Below what an authorizer keeps."""

Result = TypeVar("Result")


def main(
    counts: Annotated[list[int] | None, typer.Option("--acls", help="Numbers of ACLs. May be repeated.")] = None,
    beside_kafka: Annotated[bool, typer.Option(help="Measure Kafka's StandardAuthorizer, too. Needs Java.")] = True,
    output: Annotated[Output, typer.Option("--output", help="Output format.")] = Output.TABLE,
) -> None:
    """Print a table with a line for each number of ACLs."""
    jars = fetched_kafka_jars() if beside_kafka else None
    rows = [measured(count, jars) for count in counts or (1_000, 10_000, 100_000)]
    notes = (
        "CPU time of one process, on the image and the authorizer alone.",
        f"{PRINCIPALS:,} principals; every tenth ACL has one of {TEAMS} prefixes, every hundredth denies.",
        "Load: entries of the metadata log are decoded and replayed, as a node does at its start without a snapshot.",
        "From a snapshot: its chunks are decoded and replayed, without reading the file.",
        "Decision: for the first time. Kept: once more. Write on any: what an idempotent producer asks.",
        "Change: one more ACL, with the new authorizer and its first decision.",
        "Kafka: StandardAuthorizer 4.3.1 alone in a JVM, from parsed lines; a decision once the JVM has compiled it.",
    )
    print_report(Report(title="ACLs", durability="nothing is written", rows=rows, notes=notes), output)


def measured(count: int, jars: Path | None = None) -> dict[str, Cell]:
    """Measure so many ACLs. `jars` are Kafka's; None: it is not measured."""
    payloads = list(_payloads(count))
    load_s, acls = _timed(lambda: _loaded(payloads))
    tracemalloc.start()
    again = _loaded(payloads)
    size_bytes = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert again == acls
    questions = list(_questions(count))
    authorizer = Authorizer(acls, frozenset(), allow_if_no_acl=False)
    anew_s, _ = _timed(lambda: [authorizer.decide(*each) for each in questions])
    kept_s, _ = _timed(lambda: [authorizer.decide(*each) for each in questions])
    any_s, _ = _timed(lambda: authorizer.may_on_any(questions[0][0], Operation.WRITE, ResourceType.TOPIC))
    change_s, _ = _timed(lambda: _changed(acls).decide(*questions[0]))
    chunks = list(encode_image(MetadataImage(acls=acls)))
    snapshot_s, from_snapshot = _timed(lambda: decode_image(chunks, 0))
    assert from_snapshot.acls == acls
    return {
        "ACLs": acls.count,
        "load s": round(load_s, 2),
        "from a snapshot s": round(snapshot_s, 2),
        "memory MiB": round(size_bytes / 2**20, 1),
        "decision us": round(1e6 * anew_s / len(questions), 2),
        "kept us": round(1e6 * kept_s / len(questions), 2),
        "write on any us": round(1e6 * any_s),
        "change us": round(1e6 * change_s),
        **({} if jars is None else _beside_kafka(jars, count, questions, authorizer)),
    }


def _beside_kafka(jars: Path, count: int, questions: Sequence[Question], authorizer: Authorizer) -> dict[str, Cell]:
    kafka = kafkas_decisions(jars, _entries(count), questions)
    assert kafka.are_allowed == [authorizer.decide(*each).is_allowed for each in questions], "Kafka decides otherwise"
    return {
        "Kafka: load s": round(kafka.load_s, 2),
        "Kafka: memory MiB": round(kafka.size_bytes / 2**20, 1),
        "Kafka: decision us": round(kafka.decision_us, 2),
    }


def _timed(work: Callable[[], Result]) -> tuple[float, Result]:
    began = process_time()
    result = work()
    return process_time() - began, result


def _entry(number: int) -> AclEntry:
    is_prefixed = number % 10 == 0
    team = f"team-{number % TEAMS}-"
    return AclEntry(
        resource_type=ResourceType.GROUP if number % 4 == 3 else ResourceType.TOPIC,
        resource_name=team if is_prefixed else f"{team}topic-{number}",
        pattern_type=PatternType.PREFIXED if is_prefixed else PatternType.LITERAL,
        principal=f"User:user-{number % PRINCIPALS}",
        host="*" if number % 5 else f"10.0.{number // 256 % 256}.{number % 256}",
        operation=(Operation.READ, Operation.WRITE, Operation.DESCRIBE_CONFIGS)[number % 3],
        permission=PermissionType.DENY if number % 100 == 1 else PermissionType.ALLOW,
    )


def _entries(count: int) -> list[AclEntry]:
    return list(dict.fromkeys(map(_entry, range(count))))


def _payloads(count: int) -> Iterator[bytes]:
    records = (acl_record(AclAdded, each) for each in _entries(count))
    while part := list(islice(records, ENTRY_RECORDS)):
        yield encode_records(part)


def _loaded(payloads: Sequence[bytes]) -> Acls:
    acls = NO_ACLS
    for index, payload in enumerate(payloads):
        draft = AclsDraft(acls)
        for record in decode_records(payload, index):
            assert isinstance(record, AclRecord)
            draft.apply(record)
        acls = draft.acls()
    return acls


def _questions(count: int) -> Iterator[Question]:
    """Yield what clients ask: each principal reads topics that an ACL names for it, and some that none does."""
    for number in range(min(count, DECISIONS)):
        # Seven has no common factor with the counts, so hardly any question comes twice.
        entry = _entry(number * 7 % count)
        name = entry.resource_name if number % 2 else f"{entry.resource_name}-other"
        yield Requester(entry.principal, "10.0.0.1"), Operation.READ, ResourceType.TOPIC, name


def _changed(acls: Acls) -> Authorizer:
    draft = AclsDraft(acls)
    one_more = AclEntry(
        resource_type=ResourceType.TOPIC,
        resource_name="one-more",
        pattern_type=PatternType.LITERAL,
        principal="User:one-more",
        host="*",
        operation=Operation.READ,
        permission=PermissionType.ALLOW,
    )
    draft.apply(acl_record(AclAdded, one_more))
    return Authorizer(draft.acls(), frozenset(), allow_if_no_acl=False)


if __name__ == "__main__":
    typer.run(main)
