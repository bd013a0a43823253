"""The ledger: every judgement that was made, kept, and found again by what was judged."""
