"""The arguments of `kraft log`."""

from __future__ import annotations

from typing import Annotated

import typer

from kraft.cli.options import Output, OutputFormat
from kraft.cli.printing import fail

app = typer.Typer(help="Look into the files of partitions. No node has to run.", no_args_is_help=True)

_STRING_DECODERS = ("org.apache.kafka.tools.api.StringDecoder", "kafka.serializer.StringDecoder", "StringDecoder")

Files = Annotated[list[str] | None, typer.Argument(metavar="[FILE]...", help="Files of a partition's directory.")]
FilesOption = Annotated[str | None, typer.Option("--files", metavar="FILE[,...]", help="The same, in Kafka's way.")]
PrintDataLog = Annotated[bool, typer.Option("--print-data-log", help="Print keys and values, which decodes records.")]
DeepIteration = Annotated[bool, typer.Option("--deep-iteration", help="Decode and print every record.")]
SkipRecordMetadata = Annotated[
    bool, typer.Option("--skip-record-metadata", help="Of records, print only what --print-data-log adds.")
]
IndexSanityCheck = Annotated[
    bool, typer.Option("--index-sanity-check", help="Of an index, check only whether it makes sense in itself.")
]
VerifyIndexOnly = Annotated[
    bool, typer.Option("--verify-index-only", help="Of an index, compare its entries with the log, and print none.")
]
MaxMessageSize = Annotated[int, typer.Option("--max-message-size", min=1, help="Largest batch an index may name.")]
MaxBytes = Annotated[int, typer.Option("--max-bytes", min=0, help="Read so much of a .log, in whole batches.")]
DecoderClass = Annotated[str | None, typer.Option(metavar="CLASS", help="Only the decoder of plain text is built.")]
NotBuilt = Annotated[bool, typer.Option(hidden=True)]
Directory = Annotated[str, typer.Argument(metavar="DIR", help="A partition's directory, or a log directory.")]
Shallow = Annotated[bool, typer.Option("--shallow", help="Check checksums, but decode no records.")]


@app.callback()
def log() -> None:
    """Look into the files of partitions. No node has to run."""


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
    offsets_decoder: NotBuilt = False,
    transaction_log_decoder: NotBuilt = False,
    cluster_metadata_decoder: NotBuilt = False,
    remote_log_metadata_decoder: NotBuilt = False,
    share_group_state_decoder: NotBuilt = False,
    output: OutputFormat = Output.TABLE,
) -> None:
    """Print what is in .log, .index, .timeindex, .snapshot and checkpoint files, as Kafka's DumpLogSegments prints it.

    What can be read is printed even of a broken file; then one line says what is wrong where, and the exit code is 1.
    """
    from kraft.cli.log.dump import Dump, DumpOptions
    from kraft.cli.log.json_lines import JsonLines
    from kraft.cli.log.kafka_lines import KafkaLines
    from kraft.cli.log.read_only_disk import ReadOnlyDisk
    from kraft.cli.log.telling import Telling

    for name, is_asked in (
        ("--offsets-decoder", offsets_decoder),
        ("--transaction-log-decoder", transaction_log_decoder),
        ("--cluster-metadata-decoder", cluster_metadata_decoder),
        ("--remote-log-metadata-decoder", remote_log_metadata_decoder),
        ("--share-group-state-decoder", share_group_state_decoder),
    ):
        if is_asked:
            fail(f"{name} is not built yet")
    for name, chosen in (("--key-decoder-class", key_decoder_class), ("--value-decoder-class", value_decoder_class)):
        if chosen is not None and chosen not in _STRING_DECODERS:
            fail(f"{name} {chosen} is not built: only {_STRING_DECODERS[0]} is")
    paths = [*(files or []), *(path.strip() for path in (files_option or "").split(",") if path.strip())]
    if not paths:
        raise typer.BadParameter("name a file", param_hint="FILE")
    with_contents = print_data_log or key_decoder_class is not None or value_decoder_class is not None
    printer_class = JsonLines if output is Output.JSON else KafkaLines
    printer = printer_class(with_contents=with_contents, with_metadata=not skip_record_metadata)
    telling = Telling(printer)
    one = Dump(
        ReadOnlyDisk(),
        printer,
        DumpOptions(
            deep=deep_iteration or with_contents,
            sanity_only=index_sanity_check,
            verify_only=verify_index_only,
            message_bytes_max=max_message_size,
            bytes_max=max_bytes,
        ),
        wrong=telling.wrong,
        remark=telling.remark,
    )
    for path in paths:
        one.file(path)
    if telling.is_anything_wrong:
        raise typer.Exit(1)


@app.command("verify")
def verify(directory: Directory, shallow: Shallow = False, output: OutputFormat = Output.TABLE) -> None:
    """Read everything in a partition's directory, or in those of a log directory, and say what is wrong where.

    The node may be running. The exit code is 0 when all is well, 1 when not.
    """
    from kraft.cli.log.verify import run

    if not run(directory, decode_records=not shallow, output=output):
        raise typer.Exit(1)
