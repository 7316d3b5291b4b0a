"""The metadata in the controllers' files, replayed from the snapshot and the journal of each."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Final

from kraft.metadata.image import EMPTY_IMAGE, MetadataImage
from kraft.quorum import command, journal_format
from kraft.quorum.command import CommandKind
from kraft.quorum.journal import DIRECTORY_NAME, FILE_NAME
from kraft.quorum.journal_format import EntryRecord, TruncationRecord
from kraft.quorum.snapshots import SnapshotStore
from kraft.rpc.metadata_codec import decode_records
from kraft.runtime.disk import RealDisk
from kraft.server.cluster.metadata_snapshots import decode_image
from kraft.server.controller.controller_node import CONTROLLER_SNAPSHOTS
from kraft.testing import Cluster

_DEADLINE_S: Final = 30.0
_POLL_S: Final = 0.1


def read_image(node_directory: Path) -> MetadataImage:
    """Return the metadata in the files of one controller; its last entries may not be committed.

    The node may run. Raises Corruption.
    """
    disk = RealDisk()
    # Not in all of the node's directory: partitions come and go while it would be searched.
    segments = sorted(
        (node_directory / DIRECTORY_NAME).rglob("quorum*.journal"), key=lambda path: (path.name != FILE_NAME, path.name)
    )
    # Read before the snapshots are: a journal never begins behind the earlier of the two that were kept by then.
    entries = _entries({str(path): disk.read_file(str(path)) for path in segments})
    image, index = _latest_snapshot(disk, node_directory / CONTROLLER_SNAPSHOTS)
    for at in sorted(at for at in entries if at > index):
        decoded = command.decode(entries[at].command)
        # Stored in another term than it was decided in, it changes nothing.
        if decoded and decoded.kind is CommandKind.PAYLOAD and decoded.decided_term == entries[at].term:
            image = image.replay(decode_records(decoded.payload, at))
    return image


def wait_for_one_image(cluster: Cluster, deadline_s: float = _DEADLINE_S) -> MetadataImage:
    """Return the metadata of all controllers, once it is the same on each. Raises TimeoutError.

    Brokers may change something at any moment, so this polls.
    """
    controllers = [node.node_id for node in cluster.nodes if node.is_controller]
    until_s = time.monotonic() + deadline_s
    while True:
        images = {node_id: read_image(cluster.directory / f"node-{node_id}") for node_id in controllers}
        first, *others = images.values()
        if all(other == first for other in others):
            return first
        if time.monotonic() > until_s:
            raise TimeoutError(f"after {deadline_s:.0f} s the controllers' metadata differ in {_differences(images)}")
        time.sleep(_POLL_S)


def _entries(segments: dict[str, bytes]) -> dict[int, EntryRecord]:
    """Return the valid entries by their indexes."""
    entries: dict[int, EntryRecord] = {}
    for record in chain.from_iterable(journal_format.scan(path, data).records for path, data in segments.items()):
        if isinstance(record, EntryRecord):
            entries[record.index] = record
        elif isinstance(record, TruncationRecord):
            entries = {index: entry for index, entry in entries.items() if index < record.from_index}
    return entries


def _latest_snapshot(disk: RealDisk, directory: Path) -> tuple[MetadataImage, int]:
    store = SnapshotStore(disk, str(directory))
    while generations := store.generations():
        try:
            snapshot = store.read(generations[0])
        except FileNotFoundError:
            # Later ones have taken its place meanwhile.
            continue
        return decode_image(snapshot.chunks, snapshot.id.index), snapshot.id.index
    return EMPTY_IMAGE, 0


def _differences(images: dict[int, MetadataImage]) -> str:
    parts: dict[str, Callable[[MetadataImage], object]] = {
        "brokers": lambda image: image.brokers,
        "topics": lambda image: image.topics,
        "features": lambda image: image.features,
        "producer ids": lambda image: image.next_producer_id,
        "configs": lambda image: image.broker_configs,
        "quotas": lambda image: image.client_quotas,
    }
    different = [name for name, part in parts.items() if len({repr(part(image)) for image in images.values()}) > 1]
    return f"{' and '.join(different) or 'broker epochs'} (nodes {sorted(images)})"
