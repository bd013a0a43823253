"""Excerpt of the rollouts that the page of a run holds, and what it leaves out."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rubric_core import Task
from rubric_core.rows import read_growing
from rubric_judge.judges.lexical.scoring import missing_terms
from rubric_judge.ui.page.grounding import MAX_PASSAGE_CHARS, told_grounding
from rubric_judge.ui.page.rendering import shortened
from rubric_judge.ui.page.tables import counted
from rubric_train_openrlhf.run import records

MAX_STEPS = 12
MAX_CHARS = 4_000_000
"""Prompts, responses and reasoning of the whole page."""
MAX_TEXT_CHARS = 12_000
"""One prompt or response."""
MAX_REASONING_CHARS = 2_000
MOST_NAMES = 200
"""Criteria that can be chosen from a list; an address may name any other."""
_NUMBERS_CHARS = 1_000
"""About what the numbers of one judgement take."""


@dataclass(frozen=True)
class Excerpt:
    """Rollouts for the page, the two sides apart."""

    policy: dict[str, Any]
    """Steps with prompt, response, reward and advantage."""
    judge: dict[str, Any]
    """Result, z, share and attribution by response id."""
    caption: str
    """Numbers of steps and responses on the page and in the run."""
    grounding: dict[str, Any]
    """Passage and rubric by task id; empty unless they may be shown."""

    @property
    def rows(self) -> int:
        """Number of responses on the page."""
        return sum(len(step["rows"]) for step in self.policy["steps"])

    def criterion_names(self, kinds: Mapping[str, Mapping[str, str]]) -> set[str]:
        """Return every id, and every kind that is known, of which there is a response.

        Args:
            kinds: names of kinds by task and criterion id.
        """
        names = {
            name for entry in self.judge.values() for name, *_ in entry["criteria"]
        }
        tasks = {row["task"] for step in self.policy["steps"] for row in step["rows"]}
        for task in tasks & kinds.keys():
            names |= set(kinds[task].values())
        return names

    def criteria(self, kinds: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
        """Return the names of criteria that responses can be chosen by.

        Args:
            kinds: names of kinds by task and criterion id.

        Returns:
            `names`: kinds, and the ids that most responses have; `kinds` of the tasks on the page.
        """
        ids: Counter[str] = Counter()
        for entry in self.judge.values():
            ids.update(name for name, *_ in entry["criteria"])
        tasks = {row["task"] for step in self.policy["steps"] for row in step["rows"]}
        shown = {task: kinds[task] for task in sorted(tasks) if kinds.get(task)}
        names = sorted({name for by_id in shown.values() for name in by_id.values()})
        known = [name for name, _ in ids.most_common(MOST_NAMES)]
        return {"names": [*names, *sorted(known)], "kinds": shown}


def excerpt(
    run: Path,
    *,
    best_step: int | None,
    notes: list[str],
    tasks: Mapping[str, Task] | None = None,
) -> Excerpt:
    """Read the rollouts of the first, the best, the last and evenly spaced steps.

    Args:
        run: the run folder.
        best_step: of the best validation pass.
        notes: gets what a reader should know of the files.
        tasks: by id, where the page may show what the judge knew and said.

    Raises:
        RubricFileError: a broken row; names the file, line and field.
    """
    files = {
        int(step): path
        for path in (run / "rollouts").glob("step_*.jsonl")
        if (step := path.stem.removeprefix("step_")).isdecimal()
    }
    shown = spread(sorted(files), MAX_STEPS, keep=best_step)
    prompts: dict[str, int] = {}
    steps: list[dict[str, Any]] = []
    judge: dict[str, Any] = {}
    total = kept = 0
    for step in shown:
        rows = [
            row for _, row in read_growing(files[step], records.RolloutRow, notes=notes)
        ]
        chosen = _whole_groups(rows, MAX_CHARS // len(shown))
        total = total + len(rows)
        kept = kept + len(chosen)
        entries = [_policy_entry(row, prompts) for row in chosen]
        steps.append({"step": step, "total": len(rows), "rows": entries})
        judged = run / "judgements" / files[step].name
        responses = {row.id: row.judged for row in chosen}
        judge.update(
            (row.id, _judge_entry(row, responses[row.id], tasks))
            for _, row in read_growing(judged, records.JudgementRow, notes=notes)
            if row.id in responses
        )
    task_ids: set[str] = set()
    for step in steps:
        task_ids.update(row["task"] for row in step["rows"])
    chars = min(MAX_PASSAGE_CHARS, MAX_CHARS // max(1, len(task_ids)))
    grounding: dict[str, Any] = {}
    for task_id, task in (tasks or {}).items():
        if task_id in task_ids:
            grounding[task_id] = told_grounding(task, passage_chars=chars)
    return Excerpt(
        policy={"prompts": list(prompts), "steps": steps},
        judge=judge,
        caption=_caption(shown, len(files), kept, total),
        grounding=grounding,
    )


def spread(items: Sequence[int], limit: int, *, keep: int | None = None) -> list[int]:
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


def _whole_groups(
    rows: Sequence[records.RolloutRow], budget_chars: int
) -> list[records.RolloutRow]:
    """Evenly spaced groups within the budget, and one at least."""
    groups: defaultdict[str, list[records.RolloutRow]] = defaultdict(list)
    for row in rows:
        groups[row.id.rpartition("-g")[0] or row.task_id].append(row)
    if not groups:
        return []
    by_place = list(groups.values())
    # On the page, with the most that the judgements can add.
    chars = sum(min(len(row.response), MAX_TEXT_CHARS) for row in rows)
    chars += len(rows) * (MAX_REASONING_CHARS + _NUMBERS_CHARS)
    limit = max(1, budget_chars * len(groups) // chars)
    positions = [0] if limit == 1 else spread(range(len(groups)), limit)
    return [row for position in positions for row in by_place[position]]


def _policy_entry(row: records.RolloutRow, prompts: dict[str, int]) -> dict[str, Any]:
    shown = row.model_dump(exclude={"step", "task_id"})
    return shown | {
        "task": row.task_id,
        "prompt": prompts.setdefault(_shown(row.prompt, MAX_TEXT_CHARS), len(prompts)),
        "response": _shown(row.response, MAX_TEXT_CHARS),
        **(
            {} if row.answer is None else {"answer": _shown(row.answer, MAX_TEXT_CHARS)}
        ),
    }


def _judge_entry(
    row: records.JudgementRow, response: str, tasks: Mapping[str, Task] | None
) -> dict[str, Any]:
    """Return the judge's result, with its words and missing terms only where tasks are given."""
    result = row.result
    task = (tasks or {}).get(row.task_id)
    names = dict.fromkeys((*row.shares, *row.z, *row.attribution))
    missing = (
        {criterion.id: missing_terms(criterion, response) for criterion in task.rubric}
        if task
        else {}
    )
    return {
        **result.model_dump(
            mode="json", include={"judge", "outcome", "reason", "detail"}
        ),
        "reasoning": ""
        if tasks is None
        else _shown(result.reasoning, MAX_REASONING_CHARS),
        "criteria": [
            [name, row.z.get(name), row.shares.get(name), row.attribution.get(name)]
            + ([missing[name]] if missing.get(name) else [])
            for name in names
        ],
    }


_shown = partial(shortened, where="the run folder")


def _caption(shown: Sequence[int], files: int, kept: int, total: int) -> str:
    if not shown:
        return "No rollouts yet."
    steps = (
        f"{len(shown)} of {files} steps"
        if len(shown) < files
        else counted(files, "step")
    )
    rows = (
        f"{kept:,} of {total:,} responses"
        if kept < total
        else counted(total, "response")
    )
    whole = len(shown) == files and kept == total
    return f"{steps}, {rows}" + (
        "."
        if whole
        else "; a sample that keeps groups whole. The run folder holds all of them."
    )
