"""Disks whose power can fail, under processes that know nothing of it.

`PowerLossDisk` mounts a file system of our own, which is a process of its own. What programs write there is kept in
memory until fsync, fdatasync or O_SYNC pass it on to the medium; what names they give, take and change, until the
directory is synced. When the power is lost, the medium is what there is: all else is gone, or a random part of it has
survived.
"""

from __future__ import annotations

from chaos.nemesis.power_loss.disk import CannotMount, PowerLossDisk, check_fuse
from chaos.nemesis.power_loss.loss import AtStake, Loss

__all__ = ["AtStake", "CannotMount", "Loss", "PowerLossDisk", "check_fuse"]
