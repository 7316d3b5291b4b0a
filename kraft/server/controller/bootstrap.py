"""The users that a new cluster begins with, so that somebody can log in where every listener asks for it.

`kraft storage format --add-scram` writes them into a file beside the metadata log. The controller that becomes active
first puts what its own file has into the entry that initialises the cluster: there is no moment without these users.
Controllers that were formatted with other passwords do not mix. After that the file means nothing, and the next start
removes it.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from pathlib import Path

from kraft.metadata.broker_decisions import initialise_cluster
from kraft.metadata.image import EMPTY_IMAGE
from kraft.metadata.records import MetadataRecord
from kraft.metadata.user_decisions import UNKNOWN_USERS_KEY_BYTES, alter_user_scram_credentials
from kraft.model.errors import Corruption
from kraft.quorum import snapshots
from kraft.quorum.snapshots import SnapshotId
from kraft.rpc.metadata_codec import decode_records, encode_records
from kraft.runtime.disk import RealDisk
from kraft.server.config.node_config import NodeConfig
from kraft.server.config.processes import processes
from kraft.server.identity import process_storage, storage
from kraft.server.identity.storage import BOOTSTRAP_FILE, Formatted, StorageError
from kraft.wire.schema.alter_user_scram_credentials import AlterUserScramCredentialsRequest, ScramCredentialUpsertion

_BEFORE_ALL_ENTRIES = SnapshotId(index=0, term=0)


def format_with_users(
    config: NodeConfig, cluster_id: str | None, users: Sequence[ScramCredentialUpsertion]
) -> list[Formatted]:
    """Format the directories of a node's processes, for a cluster with these users.

    A node that is no controller is formatted without: its cluster has them from the controllers. Raises StorageError,
    and changes nothing then, also for a node that is formatted already: its cluster may exist.
    """
    records = _records(users)
    for directory in (each for one in processes(config) for each in (*one.log_dirs, one.metadata_log_dir)):
        if storage.read_meta(directory) is not None:
            raise StorageError(
                f"{directory} is formatted already, and users are added when a node is formatted first: set passwords"
                " of a running cluster with 'kraft users set-password'"
            )
    if not config.is_controller:
        return process_storage.format_all(config, cluster_id)
    file = config.metadata_log_dir / BOOTSTRAP_FILE
    try:
        # Before the directory counts as formatted, so that an interrupted command can be repeated.
        RealDisk().make_dir(str(file.parent))
        RealDisk().write_atomically(str(file), snapshots.encode(_BEFORE_ALL_ENTRIES, [encode_records(records)]))
        try:
            return process_storage.format_all(config, cluster_id)
        except StorageError:
            os.remove(file)
            raise
    except OSError as error:
        raise StorageError(f"{file}: cannot be written: {error.strerror}: check log.dirs and its permissions") from None


def read(directory: Path) -> list[MetadataRecord]:
    """Return the records of a metadata log directory's file; none without one. Raises Corruption."""
    file = directory / BOOTSTRAP_FILE
    try:
        data = file.read_bytes()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise Corruption(str(file), 0, f"it cannot be read: {error.strerror}") from None
    return [record for chunk in snapshots.decode(str(file), data).chunks for record in decode_records(chunk, 0)]


def remove(directory: Path) -> None:
    (directory / BOOTSTRAP_FILE).unlink(missing_ok=True)


def _records(users: Sequence[ScramCredentialUpsertion]) -> list[MetadataRecord]:
    """Return the records of the users, as a new cluster decides. Raises StorageError."""
    image = EMPTY_IMAGE.replay(initialise_cluster(EMPTY_IMAGE, "new").records)
    records: list[MetadataRecord] = []
    for user in users:
        request = AlterUserScramCredentialsRequest(deletions=(), upsertions=(user,))
        decision = alter_user_scram_credentials(image, request, secrets.token_bytes(UNKNOWN_USERS_KEY_BYTES))
        (result,) = decision.response.results
        if result.error_code:
            raise StorageError(f"user {user.name!r}: {result.error_message}")
        records += decision.records
        image = image.replay(decision.records)
    return records
