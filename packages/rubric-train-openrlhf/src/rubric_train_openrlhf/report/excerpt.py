"""Which rollouts the page holds: whole groups of a few steps, under a cap that the page names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rubric_train_openrlhf.report.reading import read_rows
from rubric_train_openrlhf.run.records import JudgementRow, RolloutRow

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

MAX_STEPS = 12
MAX_CHARS = 4_000_000
"""Prompts, responses and reasoning of the whole page."""
MAX_TEXT_CHARS = 12_000
"""One prompt or response."""
MAX_REASONING_CHARS = 2_000
_NUMBERS_CHARS = 1_000
"""About what the numbers of one judgement take."""


@dataclass(frozen=True)
class Excerpt:
    """Rollouts for the page, the two sides apart."""

    policy: dict[str, Any]
    """Steps with prompt, response, reward and advantage."""
    judge: dict[str, Any]
    """By response id: result, z, share and attribution."""
    caption: str
    """What is shown, and out of how much."""

    @property
    def rows(self) -> int:
        """Responses on the page."""
        return sum(len(step["rows"]) for step in self.policy["steps"])


def excerpt(run: Path, *, best_step: int | None, notes: list[str]) -> Excerpt:
    """Read the rollouts of the first, the best, the last and evenly spaced steps.

    Raises:
        RubricFileError: a broken row; names the file, line and field.
    """
    files = {
        _step_of(path): path
        for path in (run / "rollouts").glob("step_*.jsonl")
        if path.stem.removeprefix("step_").isdecimal()
    }
    shown = _spread(sorted(files), MAX_STEPS, keep=best_step)
    prompts: dict[str, int] = {}
    steps: list[dict[str, Any]] = []
    judge: dict[str, Any] = {}
    total = kept = 0
    for step in shown:
        rows = list(read_rows(files[step], RolloutRow, notes))
        chosen = _whole_groups(rows, MAX_CHARS // len(shown))
        total, kept = total + len(rows), kept + len(chosen)
        entries = [_policy_entry(row, prompts) for row in chosen]
        steps.append({"step": step, "total": len(rows), "rows": entries})
        judgements = read_rows(run / "judgements" / files[step].name, JudgementRow, notes)
        ids = {row.id for row in chosen}
        judge.update((row.id, _judge_entry(row)) for row in judgements if row.id in ids)
    return Excerpt(
        policy={"prompts": list(prompts), "steps": steps},
        judge=judge,
        caption=_caption(shown, len(files), kept, total),
    )


def _step_of(path: Path) -> int:
    return int(path.stem.removeprefix("step_"))


def _spread(items: Sequence[int], limit: int, *, keep: int | None = None) -> list[int]:
    """At most `limit` of them, evenly spaced, the ends and `keep` among them."""
    if len(items) <= limit:
        return list(items)
    positions = {round(i * (len(items) - 1) / (limit - 1)) for i in range(limit)}
    if keep in items and items.index(keep) not in positions:
        wanted = items.index(keep)
        inner = positions - {0, len(items) - 1}
        positions.discard(min(inner, key=lambda position: abs(position - wanted)))
        positions.add(wanted)
    return [items[position] for position in sorted(positions)]


def _whole_groups(rows: Sequence[RolloutRow], budget_chars: int) -> list[RolloutRow]:
    """Evenly spaced groups within the budget, and one at least."""
    groups: dict[str, list[RolloutRow]] = {}
    for row in rows:
        groups.setdefault(row.id.rpartition("-g")[0] or row.task_id, []).append(row)
    if not groups:
        return []
    names = list(groups)
    mean_chars = sum(map(_chars, rows)) / len(groups)
    limit = max(1, min(len(names), int(budget_chars / max(mean_chars, 1))))
    positions = [0] if limit == 1 else _spread(range(len(names)), limit)
    return [row for position in positions for row in groups[names[position]]]


def _chars(row: RolloutRow) -> int:
    """Size on the page, with the most that the judgement can add."""
    return min(len(row.response), MAX_TEXT_CHARS) + MAX_REASONING_CHARS + _NUMBERS_CHARS


def _policy_entry(row: RolloutRow, prompts: dict[str, int]) -> dict[str, Any]:
    return {
        "id": row.id,
        "prompt": prompts.setdefault(_cut(row.prompt, MAX_TEXT_CHARS), len(prompts)),
        "task": row.task_id,
        "response": _cut(row.response, MAX_TEXT_CHARS),
        "reward": row.reward,
        "advantage": row.advantage,
        "tokens": row.tokens,
        "ended": row.ended,
        "outcome": row.outcome,
    }


def _judge_entry(row: JudgementRow) -> dict[str, Any]:
    result = row.result
    names = dict.fromkeys((*row.shares, *row.z, *row.attribution))
    return {
        "judge": result.judge,
        "outcome": str(result.outcome),
        "reason": None if result.reason is None else str(result.reason),
        "detail": result.detail,
        "reasoning": _cut(result.reasoning, MAX_REASONING_CHARS),
        "criteria": [
            [name, row.z.get(name), row.shares.get(name), row.attribution.get(name)]
            for name in names
        ],
    }


def _cut(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    left = len(text) - limit
    return f"{text[:limit]} […{left:,} more characters in the run folder]"


def _caption(shown: Sequence[int], files: int, kept: int, total: int) -> str:
    if not shown:
        return "No rollouts yet."
    steps = f"{len(shown)} of {files} steps" if len(shown) < files else _plural(files, "step")
    rows = f"{kept:,} of {total:,} responses" if kept < total else _plural(total, "response")
    whole = len(shown) == files and kept == total
    return f"{steps}, {rows}" + (
        "." if whole else "; a sample that keeps groups whole. The run folder holds all of them."
    )


def _plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}" + ("" if count == 1 else "s")
