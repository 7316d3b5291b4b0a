"""Arguments of `kraft log`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

import typer

from kraft.cli.options import Output, OutputFormat
from kraft.cli.printing import fail

app = typer.Typer(help="Print and check the files of partitions. No node has to run.", no_args_is_help=True)

_STRING_DECODERS = ("org.apache.kafka.tools.api.StringDecoder", "kafka.serializer.StringDecoder", "StringDecoder")

Files = Annotated[list[str] | None, typer.Argument(metavar="FILE", help="Files of a partition's directory.")]
FilesOption = Annotated[
    str | None, typer.Option("--files", metavar="FILE[,...]", help="Same as FILE, separated by commas.")
]
PrintDataLog = Annotated[bool, typer.Option("--print-data-log", help="Print the keys and values of records.")]
DeepIteration = Annotated[bool, typer.Option("--deep-iteration", help="Print every record of the batches.")]
SkipRecordMetadata = Annotated[
    bool, typer.Option("--skip-record-metadata", help="Print only what --print-data-log adds of records.")
]
IndexSanityCheck = Annotated[bool, typer.Option("--index-sanity-check", help="Check only the order of index entries.")]
VerifyIndexOnly = Annotated[
    bool, typer.Option("--verify-index-only", help="Compare index entries with the log without printing them.")
]
MaxMessageSize = Annotated[
    int, typer.Option("--max-message-size", min=1, help="Largest batch that an index entry may point to, in bytes.")
]
MaxBytes = Annotated[
    int, typer.Option("--max-bytes", min=0, help="Maximum bytes to read from a .log file; only whole batches.")
]
DecoderClass = Annotated[str | None, typer.Option(metavar="CLASS", help="Decoder; only plain text is supported.")]
TransactionLogDecoder = Annotated[
    bool, typer.Option("--transaction-log-decoder", help="Print the records of __transaction_state as JSON.")
]
NotSupported = Annotated[bool, typer.Option(hidden=True)]
Directory = Annotated[str, typer.Argument(metavar="DIR", help="Directory of a partition, or a log directory.")]
Shallow = Annotated[bool, typer.Option("--shallow", help="Check checksums without decoding records.")]


@app.callback()
def log() -> None:
    """Print and check the files of partitions. No node has to run."""


@app.command("dump")
def dump(
    files: Files = None,
    files_option: FilesOption = None,
    print_data_log: PrintDataLog = False,
    deep_iteration: DeepIteration = False,
    skip_record_metadata: SkipRecordMetadata = False,
    index_sanity_check: IndexSanityCheck = False,
    verify_index_only: VerifyIndexOnly = False,
    max_message_size: MaxMessageSize = 5 << 20,
    max_bytes: MaxBytes = 0x7FFFFFFF,
    key_decoder_class: DecoderClass = None,
    value_decoder_class: DecoderClass = None,
    offsets_decoder: NotSupported = False,
    transaction_log_decoder: TransactionLogDecoder = False,
    cluster_metadata_decoder: NotSupported = False,
    remote_log_metadata_decoder: NotSupported = False,
    share_group_state_decoder: NotSupported = False,
    output: OutputFormat = Output.TABLE,
) -> None:
    """Print the files of a partition.

    These are .log, .index, .timeindex, .txnindex, .snapshot and checkpoint files. The format is that of Kafka's
    DumpLogSegments. Damage is reported after what can be read; the exit code is then 1.
    """
    from kraft.cli.log import transaction_records
    from kraft.cli.log.dump import Dump, DumpOptions
    from kraft.cli.log.json_lines import JsonLines
    from kraft.cli.log.kafka_lines import KafkaLines
    from kraft.cli.log.problems import Problems
    from kraft.cli.log.read_only_disk import ReadOnlyDisk

    _refuse(
        {
            "--offsets-decoder": offsets_decoder,
            "--cluster-metadata-decoder": cluster_metadata_decoder,
            "--remote-log-metadata-decoder": remote_log_metadata_decoder,
            "--share-group-state-decoder": share_group_state_decoder,
        },
        {"--key-decoder-class": key_decoder_class, "--value-decoder-class": value_decoder_class},
    )
    with_contents = print_data_log or transaction_log_decoder or bool(key_decoder_class or value_decoder_class)
    printer_class = JsonLines if output is Output.JSON else KafkaLines
    printer = printer_class(
        with_contents=with_contents,
        with_metadata=not skip_record_metadata,
        contents=transaction_records.contents if transaction_log_decoder else None,
    )
    problems = Problems(printer)
    reader = Dump(
        ReadOnlyDisk(),
        printer,
        DumpOptions(
            deep=deep_iteration or with_contents,
            sanity_only=index_sanity_check,
            verify_only=verify_index_only,
            message_bytes_max=max_message_size,
            bytes_max=max_bytes,
        ),
        fault=problems.fault,
        remark=problems.remark,
    )
    for path in _paths(files, files_option):
        reader.file(path)
    if problems.has_fault:
        raise typer.Exit(1)


def _refuse(unsupported: Mapping[str, bool], decoder_classes: Mapping[str, str | None]) -> None:
    """End the command if an option is given that is not supported."""
    for name, is_given in unsupported.items():
        if is_given:
            fail(f"{name} is not supported yet: remove the option")
    for name, chosen in decoder_classes.items():
        if chosen is not None and chosen not in _STRING_DECODERS:
            fail(f"{name} {chosen} is not supported: use {_STRING_DECODERS[0]}")


def _paths(files: Sequence[str] | None, files_option: str | None) -> list[str]:
    """Return the files that were named. Raises BadParameter for none."""
    paths = [*(files or []), *(path.strip() for path in (files_option or "").split(",") if path.strip())]
    if not paths:
        raise typer.BadParameter("no file is given: name one", param_hint="FILE")
    return paths


@app.command("verify")
def verify(directory: Directory, shallow: Shallow = False, output: OutputFormat = Output.TABLE) -> None:
    """Check all files of a partition or of a log directory.

    The node may be running. The exit code is 0 without faults and 1 otherwise.
    """
    from kraft.cli.log.verify import run

    if not run(directory, decode_records=not shallow, output=output):
        raise typer.Exit(1)
