"""Answers to the chosen questions, side by side: what the page's browser shows.

A judge's words, passages and criteria are read only where they are asked for.
"""

from collections.abc import Iterable, Mapping
from itertools import combinations, zip_longest
from typing import Any, Final

from rubric_core import Task
from rubric_eval.answers.store import read_answers
from rubric_eval.records.files import ItemRow, ReasoningRow, ScoreRow, iterate_rows
from rubric_eval.records.run import Measured
from rubric_eval.report.reading import Evaluation
from rubric_eval.transfer.suites import benchmark_of, benchmark_title
from rubric_judge.page.grounding import told_grounding
from rubric_judge.page.rendering import shortened, visible

Values = Mapping[str, float | None]
"""A model's mean by question id."""


MOST_HELDOUT: Final = 300
MOST_ITEMS: Final = 60
"""Of one benchmark."""


def by_question(one: Measured) -> dict[str, float | None]:
    """Mean over the usable answers to each question, by its id; None where there is none."""
    return dict(zip(one.ids, one.means_N, strict=True))


def most_different(groups: Iterable[Mapping[str, Values]], *, limit: int) -> list[str]:
    """Choose questions, so that every pair of models has its greatest differences among them.

    Args:
        groups: under each judge, or on one benchmark, the means of each model by question id.
        limit: most questions.

    Returns:
        Ids, the greatest differences of all pairs taken in turn: those with the first model come
        first. Questions that no two models share are at the end, in their order.
    """
    ranked: list[list[str]] = []
    known: dict[str, None] = {}
    for models in groups:
        for values in models.values():
            known.update(dict.fromkeys(values))
        ranked += [_ranked(models[a], models[b]) for a, b in combinations(models, 2)]
    taken = dict.fromkeys(
        id_ for ids in zip_longest(*ranked) for id_ in ids if id_ is not None
    )
    return [*taken, *(id_ for id_ in known if id_ not in taken)][:limit]


def _ranked(a: Values, b: Values) -> list[str]:
    gaps = {id_: abs(one - other) for id_, one in a.items()
            if one is not None and (other := b.get(id_)) is not None}  # fmt: skip
    return sorted(gaps, key=lambda id_: -gaps[id_])


MAX_CHARS: Final = 4_000_000
"""Texts of the whole page."""
MAX_TEXT_CHARS: Final = 12_000
"""Of one answer."""
MAX_STATED_CHARS: Final = 200
"""Of the answer that was read from one."""
MAX_REASONING_CHARS: Final = 4_000
MOST_ANSWERS: Final = 4
"""Of one model to one question."""

Entry = dict[str, Any]


def excerpts(
    heldout: Evaluation | None,
    transfer: Evaluation | None,
    *,
    tasks: Mapping[str, Task] | None,
    is_revealed: bool,
) -> Entry:
    """Read the answers to the questions on which models differ most.

    Args:
        heldout: the held-out evaluation.
        transfer: the one on benchmarks.
        tasks: with their passages and rubrics, by id; shown only when revealed.
        is_revealed: whether judges' words, and passages and rubrics of `tasks`, are shown.

    Returns:
        What the page's script reads: sets of questions, and entries in order of their difference,
        as many as a page can hold.
    """
    found: Entry = {"sets": [], "entries": []}
    if heldout is not None:
        entries = _heldout_entries(heldout, tasks or {}, is_revealed=is_revealed)
        _keep(
            found,
            heldout,
            "heldout",
            entries,
            budget=MAX_CHARS // (2 if transfer else 1),
        )
    if transfer is not None:
        budget = MAX_CHARS // 2 // len(transfer.groups)
        for benchmark in transfer.groups:
            _keep(
                found,
                transfer,
                benchmark,
                _item_entries(transfer, benchmark),
                budget=budget,
            )
    return found


def _keep(
    found: Entry,
    evaluation: Evaluation,
    name: str,
    entries: list[Entry],
    *,
    budget: int,
) -> None:
    kept: list[Entry] = []
    for entry in entries:
        budget -= len(entry["question"] or "")
        budget -= sum(
            _size(answer) for all_ in entry["answers"].values() for answer in all_
        )
        if budget < 0 and kept:
            break
        kept.append(entry)
    is_heldout = name == "heldout"
    known = benchmark_of(name)
    found["sets"].append(
        {
            "name": name,
            "title": benchmark_title(name),
            "models": list(evaluation.models),
            "judges": list(evaluation.groups) if is_heldout else [],
            "shown": len(kept),
            "total": evaluation.run.questions[name].count,
            "answers": len(evaluation.run.seeds)
            * (evaluation.run.samples if is_heldout else 1),
            "unpublished": known is not None and known.is_unpublished,
        }
    )
    found["entries"] += kept


def _size(answer: Entry) -> int:
    return (
        len(answer["text"] or "")
        + sum(map(len, answer.get("reasons", {}).values()))
        + 300
    )


def _heldout_entries(
    evaluation: Evaluation, tasks: Mapping[str, Task], *, is_revealed: bool
) -> list[Entry]:
    groups = {
        judge: {model: by_question(one) for model, one in models.items()}
        for judge, models in evaluation.groups.items()
    }
    chosen = most_different(groups.values(), limit=MOST_HELDOUT)
    answers = {
        model: _answers(evaluation, model, set(chosen)) for model in evaluation.models
    }
    for judge, models in groups.items():
        for model in models:
            _add_scores(
                evaluation, judge, model, answers[model], is_revealed=is_revealed
            )
    entries: list[Entry] = []
    for id_ in chosen:
        row = evaluation.questions[id_]
        asked: Entry = {
            "question": visible(row.question),
            "field": visible(row.field),
            "document": row.doc_hash[:12],
            **(told_grounding(tasks[id_]) if is_revealed and id_ in tasks else {}),
        }
        entries.append(asked | _compared("heldout", id_, groups, answers))
    return entries


_Key = tuple[str, int, int]
"""Question, seed and sample."""


def _compared(
    name: str,
    id_: str,
    groups: Mapping[str, Mapping[str, Values]],
    answers: Mapping[str, Mapping[_Key, Entry]],
) -> Entry:
    """A question with its means, by judge and model, and the first answers of each model to it."""
    return {
        "set": name,
        "id": id_,
        "means": {
            judge: {model: values.get(id_) for model, values in models.items()}
            for judge, models in groups.items()
        },
        "answers": {
            model: [found[key] for key in sorted(found) if key[0] == id_][:MOST_ANSWERS]
            for model, found in answers.items()
        },
    }


def _answers(evaluation: Evaluation, model: str, chosen: set[str]) -> dict[_Key, Entry]:
    found: dict[_Key, Entry] = {}
    for seed in evaluation.run.seeds:
        path = evaluation.folder.answers(model, seed)
        where = str(path.relative_to(evaluation.folder.root))
        for row in read_answers(path):
            if row.task_id not in chosen:
                continue
            found[row.task_id, seed, row.sample] = {
                "seed": seed,
                "sample": row.sample,
                "text": row.text and shortened(row.text, MAX_TEXT_CHARS, where=where),
                "finish": row.finish and str(row.finish),
                "tokens": row.tokens,
                "why": row.reason and str(row.reason),
                "scores": {},
            }
    return found


def _add_scores(
    evaluation: Evaluation,
    judge: str,
    model: str,
    answers: dict[_Key, Entry],
    *,
    is_revealed: bool,
) -> None:
    folder = evaluation.folder
    for seed in evaluation.run.seeds:
        for _, row in iterate_rows(folder.scores(judge, model, seed), ScoreRow):
            if (answer := answers.get((row.task_id, seed, row.sample))) is not None:
                answer["scores"][judge] = {
                    "outcome": str(row.outcome),
                    "why": row.reason and str(row.reason),
                    "reward": row.reward,
                    "z": {visible(name): z for name, z in row.criteria_z.items()},
                }
        path = folder.judgements(judge, model, seed)
        if not is_revealed or not path.exists():
            continue
        for _, row in iterate_rows(path, ReasoningRow):
            if (answer := answers.get((row.task_id, seed, row.sample))) is not None:
                where = str(path.relative_to(folder.root))
                reasons = answer.setdefault("reasons", {})
                reasons[judge] = shortened(
                    row.reasoning, MAX_REASONING_CHARS, where=where
                )


def _item_entries(evaluation: Evaluation, benchmark: str) -> list[Entry]:
    models = {m: by_question(one) for m, one in evaluation.groups[benchmark].items()}
    chosen = most_different([models], limit=MOST_ITEMS)
    answers: dict[str, dict[_Key, Entry]] = {model: {} for model in models}
    asked: dict[str, ItemRow] = {}
    for model in models:
        for seed in evaluation.run.seeds:
            path = evaluation.folder.items(benchmark, model, seed)
            where = str(path.relative_to(evaluation.folder.root))
            for _, row in iterate_rows(path, ItemRow):
                if row.item_id in chosen:
                    asked.setdefault(row.item_id, row)
                    answers[model][row.item_id, seed, 0] = _item_answer(
                        row, seed, where
                    )
    return [
        _item(asked[id_], f"items/{benchmark}")
        | _compared(benchmark, id_, {"": models}, answers)
        for id_ in chosen
    ]


def _item(row: ItemRow, where: str) -> Entry:
    """What was asked, and what is right."""
    return {
        "question": shortened(row.question, MAX_TEXT_CHARS, where=where),
        "target": visible(row.target),
        "field": visible(row.group),
        "document": "",
    }


def _item_answer(row: ItemRow, seed: int, where: str) -> Entry:
    return {
        "seed": seed,
        "sample": 0,
        "text": None
        if row.correct is None
        else shortened(row.response, MAX_TEXT_CHARS, where=where),
        "finish": "truncated" if row.is_truncated else None,
        "tokens": row.tokens,
        "why": row.reason and str(row.reason),
        "correct": row.correct,
        "answered": row.is_answered,
        "stated": row.stated and shortened(row.stated, MAX_STATED_CHARS, where=where),
        "scores": {},
    }
