"""Characters of answers on a page: all of them go to what there is."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from rubric_eval.findings import excerpts
from rubric_eval.findings.excerpts import MAX_CHARS


@pytest.mark.parametrize(
    ("has_heldout", "benchmarks", "budgets"),
    [
        (True, 0, [MAX_CHARS]),
        (False, 2, [MAX_CHARS // 2] * 2),
        (True, 2, [MAX_CHARS // 2, MAX_CHARS // 4, MAX_CHARS // 4]),
    ],
    ids=["held-out", "benchmarks", "both"],
)
def test_the_whole_page_is_given_out(
    monkeypatch: pytest.MonkeyPatch,
    *,
    has_heldout: bool,
    benchmarks: int,
    budgets: list[int],
) -> None:
    handed_out: list[int] = []
    monkeypatch.setattr(excerpts, "_heldout_entries", lambda *_, **__: [])
    monkeypatch.setattr(excerpts, "_item_entries", lambda *_: [])
    monkeypatch.setattr(
        excerpts, "_add_set", lambda *_, budget: handed_out.append(budget)
    )
    heldout = SimpleNamespace() if has_heldout else None
    groups = {f"benchmark {number}": () for number in range(benchmarks)}
    transfer = SimpleNamespace(groups=groups) if benchmarks else None

    excerpts.excerpts(
        cast("Any", heldout), cast("Any", transfer), tasks=None, is_revealed=False
    )

    assert handed_out == budgets
