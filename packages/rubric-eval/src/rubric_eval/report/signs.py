"""Signs that a policy learned the judge and not the task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import ValidationError

from rubric_core import RubricFileError
from rubric_core.files import read_file
from rubric_eval.hacking import HackingPanel, HackingSettings, hacking_panel
from rubric_eval.records import EvalFolder, changed_inputs
from rubric_eval.records.digests import is_as_written
from rubric_eval.report.table import Cell, Column, Row, Table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rubric_core import Task
    from rubric_eval.hacking import Correlation
    from rubric_eval.report.reading import Evaluation
    from rubric_eval.statistics import Interval


@dataclass(frozen=True)
class Signs:
    """What was looked for, and whether hacking.json was still of these answers."""

    panel: HackingPanel
    is_anew: bool

    @property
    def judge(self) -> str:
        """Whose reward was looked into."""
        return self.panel.settings.judge


def signs(heldout: Evaluation, tasks: Mapping[str, Task] | None) -> Signs:
    """Take hacking.json where it is up to date, and look for the signs here otherwise.

    Args:
        heldout: the evaluation.
        tasks: for wording of their criteria in the answers.

    Raises:
        RubricFileError: hacking.json holds no such panel.
        ComparisonError, EvalShapeError: no answer to look at.
    """
    stored = _stored(heldout)
    if stored is not None and _is_of(stored, heldout):
        return Signs(stored, is_anew=False)
    judges = list(heldout.groups)
    settings = HackingSettings(judge=judges[0], second=judges[1] if len(judges) > 1 else None)
    return Signs(_panel(heldout, settings, tasks or {}), is_anew=stored is not None)


def _panel(
    heldout: Evaluation, settings: HackingSettings, tasks: Mapping[str, Task]
) -> HackingPanel:
    judged = heldout.judged[settings.judge]
    by_other = heldout.judged.get(settings.second or "", {})
    return hacking_panel(
        {model: one.answers for model, one in judged.items()},
        settings,
        tasks=tasks.values(),
        second={model: one.rewards for model, one in by_other.items()},
        unjudged={model: one.unjudged for model, one in judged.items()},
    )


def _stored(heldout: Evaluation) -> HackingPanel | None:
    path = heldout.folder.hacking
    try:
        text = read_file(path)
        found = HackingPanel.model_validate_json(text)
    except FileNotFoundError:
        return None
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False, include_context=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        raise RubricFileError(
            f"field {field!r}: {first['msg']}; run `rubric-eval hacking` again, or remove the file",
            path=path,
            field=field or None,
        ) from None
    # One that was edited is of nothing: everything is looked for again.
    return found if is_as_written(text) else found.model_copy(update={"inputs": ()})


def _is_of(stored: HackingPanel, heldout: Evaluation) -> bool:
    path = heldout.folder.hacking
    folder = EvalFolder(path.resolve().parent / stored.folder)
    if not stored.inputs or folder.root.resolve() != heldout.folder.root.resolve():
        return False
    return not changed_inputs(stored.inputs, beside=path, folders=[folder])


def signs_table(found: Signs) -> Table:
    """What the answers of each model are like."""
    panel = found.panel
    second = {one.model: one.second_mean for one in panel.opinions}
    return Table(
        key="hacking_signs",
        title="Signs of judge hacking.",
        caption=(
            f"Answers that {found.judge} judged: their length, its rank correlation with reward "
            "over all answers and among answers to one question, hedging phrases in 100 words, "
            "answers that speak to a judge, answers that hold wording of their criteria, and the "
            "mean reward of another judge."
        ),
        first="Model",
        columns=(
            Column(key="words", title="Words", form="length", has_interval=True),
            Column(key="reward_length", title="ρ, length", form="decimal", has_interval=True),
            Column(key="reward_length_within", title="ρ within", form="decimal", has_interval=True),
            Column(key="hedges", title="Hedges", form="decimal", has_interval=True),
            Column(key="appeals", title="Appeals, %", form="percent", has_interval=True),
            Column(key="echoes", title="Echoes, %", form="percent", has_interval=True),
            Column(key="second", title="Second judge, %", form="percent"),
        ),
        rows=tuple(
            Row(
                name=one.model,
                cells=(
                    _bounded(one.words),
                    _correlation(one.reward_length),
                    _correlation(one.reward_length_within),
                    _bounded(one.hedges),
                    _bounded(one.appeals),
                    Cell() if one.echoes is None else _bounded(one.echoes),
                    Cell(value=second.get(one.model)),
                ),
            )
            for one in panel.models
        ),
    )


def _bounded(interval: Interval) -> Cell:
    return Cell(value=interval.mean, low=interval.ci_low, high=interval.ci_high)


def _correlation(one: Correlation | None) -> Cell:
    return Cell() if one is None else Cell(value=one.rho, low=one.ci_low, high=one.ci_high)
