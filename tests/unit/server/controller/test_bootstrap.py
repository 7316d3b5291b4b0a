from __future__ import annotations

from pathlib import Path

import pytest

from kraft.metadata.user_decisions import password_upsertion
from kraft.model.errors import Corruption
from kraft.sasl.scram import ScramMechanism, has_password
from kraft.server.config.loading import load
from kraft.server.config.node_config import NodeConfig
from kraft.server.controller import bootstrap
from kraft.server.identity import storage
from kraft.server.identity.storage import BOOTSTRAP_FILE, StorageError
from kraft.wire.schema.alter_user_scram_credentials import ScramCredentialUpsertion
from tests.support.cluster_images import CLUSTER
from tests.unit.server.controller.controlling import controller

PASSWORD = "a password"
SHA_512 = ScramMechanism.SHA_512


def admin(name: str = "admin") -> list[ScramCredentialUpsertion]:
    return [password_upsertion(name, SHA_512, PASSWORD, b"salt", 4_096)]


def node(directory: Path, roles: str = "broker,controller") -> NodeConfig:
    file = directory / "server.properties"
    listeners = "GRPC://localhost:9094" + (",CONTROLLER://localhost:9093" if "controller" in roles else "")
    file.write_text(
        f"process.roles={roles}\nnode.id=1\nlisteners={listeners}\nlog.dirs={directory / 'data'}\n"
        f"controller.quorum.voters={'1' if 'controller' in roles else '2'}@localhost:9093,3@localhost:9193\n"
    )
    return load(file)


async def test_a_new_cluster_has_its_first_users_with_its_id(tmp_path: Path) -> None:
    bootstrap.format_with_users(node(tmp_path), CLUSTER, [*admin(), *admin("other")])
    async with controller(leading=False) as parts:
        parts.controller.first_records = bootstrap.read(tmp_path / "data")
        parts.quorum.lead(1)
        await parts.controller.host.progress(5)
        users = parts.controller.host.image.users
        assert parts.controller.host.committed_index == 1
    assert {*users.by_name} == {"admin", "other"}
    assert len(users.unknown_users_key) == 32
    assert has_password(SHA_512, users.credential("admin", SHA_512), PASSWORD)
    assert not has_password(SHA_512, users.credential("nobody", SHA_512), PASSWORD)


def test_formatting_again_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    config, file = node(tmp_path), tmp_path / "data" / BOOTSTRAP_FILE
    bootstrap.format_with_users(config, CLUSTER, admin())
    before = file.read_bytes()
    with pytest.raises(StorageError, match="is formatted already, and users are added when a node is formatted first"):
        bootstrap.format_with_users(config, CLUSTER, admin("other"))
    assert file.read_bytes() == before
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_node_that_cannot_be_formatted_gets_no_users(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"has no cluster\.id"):
        bootstrap.format_with_users(node(tmp_path), None, admin())
    assert not (tmp_path / "data" / BOOTSTRAP_FILE).exists()


def test_a_user_that_a_cluster_would_refuse_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="the user name is longer than"):
        bootstrap.format_with_users(node(tmp_path), CLUSTER, admin("a" * 1_001))
    assert not (tmp_path / "data").exists()


def test_a_broker_alone_is_formatted_without_users(tmp_path: Path) -> None:
    (formatted,) = bootstrap.format_with_users(node(tmp_path, roles="broker"), CLUSTER, admin())
    assert formatted.created
    assert bootstrap.read(tmp_path / "data") == []


def test_a_formatted_directory_with_users_has_not_been_used(tmp_path: Path) -> None:
    config = node(tmp_path)
    bootstrap.format_with_users(config, CLUSTER, admin())
    (directory,) = storage.load(config).directories
    assert not directory.has_been_used


def test_a_damaged_file_is_corruption_and_none_is_nothing(tmp_path: Path) -> None:
    bootstrap.format_with_users(node(tmp_path), CLUSTER, admin())
    file = tmp_path / "data" / BOOTSTRAP_FILE
    data = bytearray(file.read_bytes())
    data[-20] ^= 1
    file.write_bytes(data)
    with pytest.raises(Corruption, match="CRC"):
        bootstrap.read(file.parent)
    bootstrap.remove(file.parent)
    assert bootstrap.read(file.parent) == []
    bootstrap.remove(file.parent)
