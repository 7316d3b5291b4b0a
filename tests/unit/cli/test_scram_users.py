from __future__ import annotations

from base64 import b64encode
from pathlib import Path

import pytest
import typer

from kraft.cli.scram_users import first_users
from kraft.sasl.scram import ScramMechanism, credential_of, has_password, salted_password
from kraft.wire.schema.alter_user_scram_credentials import ScramCredentialUpsertion

SECRET = "s3cret"


def takes(user: ScramCredentialUpsertion, mechanism: ScramMechanism, password: str) -> bool:
    salted, salt = bytes(user.salted_password), bytes(user.salt)
    return has_password(mechanism, credential_of(mechanism, salted, salt, user.iterations), password)


def test_a_password_is_read_from_the_first_line_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("from a file\nnot this\n")
    (user,) = first_users([f"SCRAM-SHA-512=[name=admin,password-file={file}]"])
    assert (user.name, user.mechanism, user.iterations) == ("admin", 2, 4_096)
    assert takes(user, ScramMechanism.SHA_512, "from a file")


@pytest.mark.parametrize(
    ("fields", "password"),
    [
        ("name=alice,password=s3cret", SECRET),
        ('iterations=8192,name="alice",password="s3cret"', SECRET),
        (' name = alice , password = "a, b = ]" ', "a, b = ]"),
        (r'name=alice,password="a \"quoted\" one \\"', 'a "quoted" one \\'),
    ],
)
def test_the_syntax_is_that_of_kafkas_tools(fields: str, password: str) -> None:
    (user,) = first_users([f"SCRAM-SHA-256=[{fields}]"])
    assert user.name == "alice"
    assert takes(user, ScramMechanism.SHA_256, password)


def test_a_salted_password_needs_no_password() -> None:
    salt = b"0123456789abcdef"
    salted = salted_password(ScramMechanism.SHA_256, SECRET, salt, 4_096)
    texts = [b64encode(each).decode() for each in (salt, salted)]
    (user,) = first_users([f'SCRAM-SHA-256=[name=alice,salt="{texts[0]}",saltedpassword="{texts[1]}"]'])
    assert takes(user, ScramMechanism.SHA_256, SECRET)


@pytest.mark.parametrize(
    ("argument", "expected"),
    [
        ("s3cret", r"expected SCRAM-SHA-256=\[...\]"),
        ("SCRAM-SHA-1=[name=a,password=s3cret]", "expected SCRAM-SHA-256="),
        ("SCRAM-SHA-256=[password=s3cret]", "there is no name=USER"),
        ("SCRAM-SHA-256=[name=a]", "give one of password-file, password and saltedpassword"),
        ("SCRAM-SHA-256=[name=a,password=s3cret,password-file=f]", "give one of"),
        ("SCRAM-SHA-256=[name=a,password=s3cret,password=b]", "password is given twice"),
        ('SCRAM-SHA-256=[name=a,password="s3cret]', "expected KEY=VALUE"),
        ("SCRAM-SHA-256=[name=a,password=]", "is empty"),
        ("SCRAM-SHA-256=[name=a,s3cret=1]", "a key is not one of"),
        ("SCRAM-SHA-256=[name=a,password=s3cret,iterations=4095]", "iterations is not a number from 4096 to 16384"),
        ("SCRAM-SHA-256=[name=a,password=s3cret,iterations=999999999]", "iterations is not"),
        ("SCRAM-SHA-256=[name=a,saltedpassword=s3cret]", "saltedpassword needs the salt"),
        ("SCRAM-SHA-256=[name=a,password=b,salt=s3cret]", "salt is not Base64"),
        ("SCRAM-SHA-256=[name=a,password-file=/nowhere/at/all]", "cannot be read"),
    ],
)
def test_what_is_wrong_is_said_without_the_password(argument: str, expected: str) -> None:
    with pytest.raises(typer.BadParameter, match=expected) as raised:
        first_users([argument])
    assert SECRET not in str(raised.value)


def test_a_password_file_that_is_no_text_is_refused_without_its_bytes(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_bytes(b"s3cret\xff\n")
    with pytest.raises(typer.BadParameter, match="password is not UTF-8 text") as raised:
        first_users([f"SCRAM-SHA-512=[name=admin,password-file={file}]"])
    assert SECRET not in str(raised.value)
