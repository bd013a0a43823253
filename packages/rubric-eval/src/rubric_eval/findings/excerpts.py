"""Answers to selected questions, side by side, for the browser of the page.

A judge's words, passages and criteria are read only where they are asked for.
"""

from collections.abc import Iterable, Mapping
from itertools import combinations, zip_longest
from typing import Any

from rubric_core import Task
from rubric_eval.answers.store import read_answers
from rubric_eval.findings.evaluations import Evaluation
from rubric_eval.records.files import ItemRow, ReasoningRow, ScoreRow, iterate_rows
from rubric_eval.records.run import Measured
from rubric_eval.transfer.suites import TITLES, benchmark_of
from rubric_judge.ui.page.grounding import told_grounding
from rubric_judge.ui.page.rendering import shortened, visible

Values = Mapping[str, float | None]
"""A model's mean by question id."""


MOST_HELDOUT = 300
MOST_ITEMS = 60
"""Number of questions shown from one benchmark, at most."""


def by_question(measured: Measured) -> dict[str, float | None]:
    """Return the mean over the usable answers to each question by its id; None without any."""
    return dict(zip(measured.ids, measured.means_N, strict=True))


def most_different(groups: Iterable[Mapping[str, Values]], *, limit: int) -> list[str]:
    """Choose questions so that the greatest differences of every pair of models are among them.

    Args:
        groups: means of each model by question id, for each judge or for one benchmark.
        limit: number of questions at most.

    Returns:
        Ids, with the pairs taking turns to add their greatest remaining difference; pairs with
        the first model come first. Questions that no two models share follow in their order.
    """
    ranked: list[list[str]] = []
    known: dict[str, None] = {}
    for models in groups:
        for values in models.values():
            known.update(dict.fromkeys(values))
        ranked += [_ranked(models[a], models[b]) for a, b in combinations(models, 2)]
    selected: dict[str, None] = {}
    for ids in zip_longest(*ranked):
        turn = [id_ for id_ in ids if id_ is not None]
        selected.update(dict.fromkeys(turn))
    selected |= known
    return list(selected)[:limit]


def _ranked(a: Values, b: Values) -> list[str]:
    """Return the ids of the questions that both models answered, greatest difference first."""
    gaps: dict[str, float] = {}
    for id_, mean_a in a.items():
        mean_b = b.get(id_)
        if mean_a is not None and mean_b is not None:
            gaps[id_] = abs(mean_a - mean_b)
    return sorted(gaps, key=lambda id_: -gaps[id_])


MAX_CHARS = 4_000_000
"""Characters of all texts on the page together."""
MAX_TEXT_CHARS = 12_000
"""Characters of one response."""
MAX_STATED_CHARS = 200
"""Characters of the final answer that a response states."""
MAX_REASONING_CHARS = 4_000
MOST_ANSWERS = 4
"""Number of answers by one model to one question."""

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
        transfer: the evaluation on benchmarks.
        tasks: tasks by id, with their passages and rubrics; shown only when revealed.
        is_revealed: whether judges' words, passages and rubrics of `tasks`, and the answers of
            controls, which may be made of these, are shown.

    Returns:
        The data of the page's script: sets of questions, and entries in order of their
        difference, as many as a page can hold.
    """
    data: Entry = {"sets": [], "entries": []}
    half = MAX_CHARS // 2
    if heldout is not None:
        entries = _heldout_entries(heldout, tasks or {}, is_revealed=is_revealed)
        budget = half if transfer else MAX_CHARS
        _add_set(data, heldout, "heldout", entries, budget=budget)
    if transfer is not None:
        budget = (MAX_CHARS if heldout is None else half) // len(transfer.groups)
        for benchmark in transfer.groups:
            entries = _item_entries(transfer, benchmark)
            _add_set(data, transfer, benchmark, entries, budget=budget)
    return data


def _add_set(
    data: Entry,
    evaluation: Evaluation,
    name: str,
    entries: list[Entry],
    *,
    budget: int,
) -> None:
    """Add a set of questions to the data, with as many entries as `budget` characters hold."""
    chosen: list[Entry] = []
    for entry in entries:
        budget -= len(entry["question"] or "")
        for answers in entry["answers"].values():
            budget -= sum(_size(answer) for answer in answers)
        if budget < 0 and chosen:
            break
        chosen.append(entry)
    run = evaluation.run
    judges: list[str] = []
    controls: list[str] = []
    answers_per_question = len(run.seeds)
    if name == "heldout":
        judges = list(evaluation.groups)
        controls = _controls(chosen, evaluation)
        answers_per_question *= run.samples
    benchmark = benchmark_of(name)
    is_unpublished = benchmark is not None and benchmark.is_unpublished
    data["sets"].append(
        {
            "name": name,
            "title": TITLES.get(name, name),
            "models": list(evaluation.models),
            "controls": controls,
            "judges": judges,
            "shown": len(chosen),
            "total": run.questions[name].count,
            "answers": answers_per_question,
            "unpublished": is_unpublished,
        }
    )
    data["entries"] += chosen


def _controls(entries: list[Entry], evaluation: Evaluation) -> list[str]:
    """Return the names of the controls whose answers are shown."""
    shown = {model for entry in entries for model in entry["answers"]}
    names = dict.fromkeys(control.model for control in evaluation.controls)
    return [name for name in names if name in shown]


def _size(answer: Entry) -> int:
    """Return about how many characters of the page an answer takes."""
    reasons = answer.get("reasons", {})
    reason_chars = sum(len(text) for text in reasons.values())
    return len(answer["text"] or "") + reason_chars + 300


def _heldout_entries(
    evaluation: Evaluation,
    tasks: Mapping[str, Task],
    *,
    is_revealed: bool,
) -> list[Entry]:
    groups = {judge: _means(models) for judge, models in evaluation.groups.items()}
    chosen = most_different(groups.values(), limit=MOST_HELDOUT)
    if is_revealed:
        for control in evaluation.controls:
            groups[control.judge or ""][control.model] = by_question(control)
    answers: dict[str, dict[_Key, Entry]] = {}
    for model in dict.fromkeys(name for models in groups.values() for name in models):
        answers[model] = _answers(evaluation, model, set(chosen))
    for judge, models in groups.items():
        for model in models:
            _add_scores(
                evaluation,
                judge,
                model,
                answers[model],
                is_revealed=is_revealed,
            )
    entries: list[Entry] = []
    for id_ in chosen:
        row = evaluation.questions[id_]
        question: Entry = {
            "kinds": {visible(name): pool.name for name, pool in row.kinds.items()},
            "question": visible(row.question),
            "field": visible(row.field),
            "document": row.doc_hash[:12],
        }
        if is_revealed and id_ in tasks:
            question |= told_grounding(tasks[id_])
        entries.append(question | _compared("heldout", id_, groups, answers))
    return entries


def _means(models: Mapping[str, Measured]) -> dict[str, Values]:
    """Return each model's mean by question id."""
    return {model: by_question(measured) for model, measured in models.items()}


_Key = tuple[str, int, int]
"""Question, seed and sample."""


def _compared(
    name: str,
    id_: str,
    groups: Mapping[str, Mapping[str, Values]],
    answers: Mapping[str, Mapping[_Key, Entry]],
) -> Entry:
    """Return a question's means by judge and model, and each model's first answers to it."""
    means = {
        judge: {model: values.get(id_) for model, values in models.items()}
        for judge, models in groups.items()
    }
    first_answers = {
        model: [entries[key] for key in sorted(entries) if key[0] == id_][:MOST_ANSWERS]
        for model, entries in answers.items()
    }
    return {
        "set": name,
        "id": id_,
        "means": means,
        "answers": first_answers,
    }


def _answers(
    evaluation: Evaluation,
    model: str,
    chosen: set[str],
) -> dict[_Key, Entry]:
    answers: dict[_Key, Entry] = {}
    for seed in evaluation.run.seeds:
        path = evaluation.folder.answers(model, seed)
        where = str(path.relative_to(evaluation.folder.root))
        for row in read_answers(path):
            if row.task_id not in chosen:
                continue
            text = row.text
            if text:
                text = shortened(text, MAX_TEXT_CHARS, where=where)
            answers[row.task_id, seed, row.sample] = {
                "seed": seed,
                "sample": row.sample,
                "text": text,
                "finish": row.finish and str(row.finish),
                "tokens": row.tokens,
                "why": row.reason and str(row.reason),
                "scores": {},
            }
    return answers


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
            answer = answers.get((row.task_id, seed, row.sample))
            if answer is not None:
                scores = {visible(name): z for name, z in row.criteria_z.items()}
                answer["scores"][judge] = {
                    "outcome": str(row.outcome),
                    "why": row.reason and str(row.reason),
                    "reward": row.reward,
                    "z": scores,
                }
        path = folder.judgements(judge, model, seed)
        if not is_revealed or not path.exists():
            continue
        where = str(path.relative_to(folder.root))
        for _, row in iterate_rows(path, ReasoningRow):
            answer = answers.get((row.task_id, seed, row.sample))
            if answer is not None:
                reasons = answer.setdefault("reasons", {})
                reasons[judge] = shortened(
                    row.reasoning,
                    MAX_REASONING_CHARS,
                    where=where,
                )


def _item_entries(evaluation: Evaluation, benchmark: str) -> list[Entry]:
    models = _means(evaluation.groups[benchmark])
    chosen = most_different([models], limit=MOST_ITEMS)
    answers: dict[str, dict[_Key, Entry]] = {model: {} for model in models}
    rows: dict[str, ItemRow] = {}
    for model in models:
        for seed in evaluation.run.seeds:
            path = evaluation.folder.items(benchmark, model, seed)
            where = str(path.relative_to(evaluation.folder.root))
            for _, row in iterate_rows(path, ItemRow):
                if row.item_id in chosen:
                    rows.setdefault(row.item_id, row)
                    answer = _item_answer(row, seed, where)
                    answers[model][row.item_id, seed, 0] = answer
    return [
        _item(rows[id_], f"items/{benchmark}")
        | _compared(benchmark, id_, {"": models}, answers)
        for id_ in chosen
    ]


def _item(row: ItemRow, where: str) -> Entry:
    """Return a benchmark's question and its right answer."""
    return {
        "question": shortened(row.question, MAX_TEXT_CHARS, where=where),
        "target": visible(row.target),
        "field": visible(row.group),
        "document": "",
    }


def _item_answer(row: ItemRow, seed: int, where: str) -> Entry:
    text = None
    if row.correct is not None:
        text = shortened(row.response, MAX_TEXT_CHARS, where=where)
    stated = row.stated
    if stated:
        stated = shortened(stated, MAX_STATED_CHARS, where=where)
    return {
        "seed": seed,
        "sample": 0,
        "text": text,
        "finish": "truncated" if row.is_truncated else None,
        "tokens": row.tokens,
        "why": row.reason and str(row.reason),
        "correct": row.correct,
        "answered": row.is_answered,
        "stated": stated,
        "scores": {},
    }
