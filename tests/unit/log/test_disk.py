from __future__ import annotations

import errno
import os

import pytest

from kraft.log.disk import is_disk_full


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_disk_is_full_also_when_a_quota_is(number: int) -> None:
    assert is_disk_full(OSError(number, os.strerror(number)))


def test_any_other_error_is_the_disks_failure() -> None:
    assert not is_disk_full(OSError(errno.EIO, os.strerror(errno.EIO)))
    assert not is_disk_full(FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT)))
