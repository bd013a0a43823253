"""The ledger: every judgement that was made, kept, and found again by what was judged."""

from __future__ import annotations

from rubric_judge.ledger.entry import LedgerEntry, check_replicate
from rubric_judge.ledger.store import Ledger, salvage

__all__ = ["Ledger", "LedgerEntry", "check_replicate", "salvage"]
