"""AddPartitionsToTxn between brokers. Source: KIP-890."""

from __future__ import annotations

from msgspec import Struct

from kraft.model.errors import ErrorCode
from kraft.model.partitions import PartitionName


class TransactionToVerify(Struct, frozen=True, kw_only=True):
    transactional_id: str
    producer_id: int
    producer_epoch: int
    verify_only: bool
    """True to ask whether the partitions are in the transaction, False to add them."""

    partitions: tuple[PartitionName, ...]


class AddPartitionsToTxnRequest(Struct, frozen=True, kw_only=True):
    transactions: tuple[TransactionToVerify, ...]


class VerifiedTransaction(Struct, frozen=True, kw_only=True):
    error_code: ErrorCode = ErrorCode.NONE
    """Error of the transaction as a whole."""

    error_message: str = ""
    partition_error_codes: tuple[ErrorCode, ...] = ()
    """One for each partition of the request, in its order; empty with an error of the whole."""


class AddPartitionsToTxnResponse(Struct, frozen=True, kw_only=True):
    transactions: tuple[VerifiedTransaction, ...]
    """In the order of the request."""
