"""The judgements of a study on a page: those of an attack, and those that are held together."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from rubric_core import Grounding, JudgeResult, JudgeView, Task
from rubric_judge.quality.attack.plan import REFERENCE_ABOVE_WEAK, AttackPlan
from rubric_judge.quality.reliability.ratings import Rating
from rubric_judge.quality.view.joining import MOST_JUDGES, Samples, joined
from rubric_judge.quality.view.samples import (
    Judged,
    Source,
)
from rubric_judge.ui.page.links import Leads, link_to


def repeated_samples(
    ratings: Sequence[Rating], views: Mapping[int, JudgeView], tasks: Mapping[str, Task]
) -> tuple[Source, Samples]:
    """Return judgements side by side: those of each judge, and repeats as far as they fit.

    Args:
        ratings: judgements, with the repeats of a response in their order.
        views: the responses by line; judgements of others are left out.
        tasks: tasks by id.

    Raises:
        ConfigError: more judges than fit side by side.
    """
    judges = dict.fromkeys(rating.judge for rating in ratings)
    most = max(1, MOST_JUDGES // max(1, len(judges)))
    repeats = Counter((rating.judge, rating.line) for rating in ratings)
    is_repeated = most > 1 and max(repeats.values(), default=0) > 1
    seen: Counter[tuple[str, int]] = Counter()
    rows: list[Judged] = []
    for rating in ratings:
        key = rating.judge, rating.line
        seen[key] += 1
        if rating.line not in views or seen[key] > most:
            continue
        judge = f"{rating.judge} ({seen[key]})" if is_repeated else rating.judge
        task = tasks[rating.task_id]
        response = views[rating.line].response
        place = f"line {rating.line}"
        rows.append(Judged.of(task, response, rating.result, place=place, judge=judge))
    source = Source("judged responses", rows, tasks)
    return source, joined([source])


def repeated_leads(page: str, judges: Iterable[str], criteria: Iterable[str]) -> Leads:
    """Return the ways from a reliability study to its judgements, the widest apart first.

    Args:
        page: path of their page from the report.
        judges: names and marks of judges in the report.
        criteria: names of criteria in its tables.
    """
    apart = link_to(page, differ="judges", sort="gap")
    names = {name: link_to(page, criterion=name, sort="gap") for name in criteria}
    names |= dict.fromkeys(judges, apart)
    return Leads(page, names, apart)


def attack_samples(
    plan: AttackPlan, controls: Sequence[JudgeResult], cases: Sequence[JudgeResult]
) -> tuple[Source, Samples]:
    """Return the judged attacks, and the honest answers beside them.

    Args:
        plan: what was judged.
        controls: one judgement of each control, in the plan's order.
        cases: one of each case, in the plan's order.
    """
    tasks = {task.task_id: task for task in plan.tasks}
    rows: list[Judged] = []
    for case, result in zip(plan.cases, cases, strict=True):
        task = case.target.task
        name = task.task_id
        if case.attack.passage is not None:
            name = (
                case.id
            )  # its own, as it is shown with the passage that was tampered with
            tampered = Grounding(case.attack.passage)
            tasks[name] = task.model_copy(update={"grounding": tampered})
        row = Judged.of(task, case.shown, result, place=case.id, part=case.family)
        rows.append(replace(row, task_id=name))
    for control, result in zip(plan.controls, controls, strict=True):
        task = tasks[control.view.task_id]
        place = f"{control.name}@{task.task_id}"
        row = Judged.of(task, control.shown, result, place=place, part=control.name)
        rows.append(row)
    source = Source("attacks", rows, tasks)
    return source, joined([source])


def attack_leads(page: str, samples: Samples) -> Leads:
    """Return the ways from an attack's report to its cases, the best paid first.

    Args:
        page: path of their page from the report.
        samples: as `attack_samples` gives them.
    """
    names: dict[str, str] = {}
    for sample in samples.rows:
        row = sample.first
        names[row.place] = link_to(page, sample=sample.name)
        names[row.part] = link_to(page, part=row.part, sort="reward-down")
    if "weak" in names:
        names[REFERENCE_ABOVE_WEAK] = names["weak"]
    return Leads(page, names, link_to(page, sort="reward-down"))
