"""What speaks against a gain: signs that a policy learned the judge, and the judge's own noise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, ValidationError

from rubric_core import RubricFileError, Task
from rubric_core.files import read_file
from rubric_eval.hacking import Correlation, HackingPanel, HackingSettings, hacking_panel
from rubric_eval.records import EvalFolder, changed_inputs
from rubric_eval.records.digests import read_derived
from rubric_judge.page.tables import Cell, Column, Row, Table

if TYPE_CHECKING:
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
    path = heldout.folder.hacking
    stored = read_derived(path, HackingPanel, command="rubric-eval hacking")
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


class _Part(BaseModel):
    """What the page takes; the file holds more."""

    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)


class Bounded(Cell):
    """A number and its interval, as a cell of a table; None where the data cannot say."""

    model_config = ConfigDict(extra="ignore")


class JudgeNoise(_Part):
    """One judge on its own."""

    judge: str
    judgements: int
    replicates: int
    icc1_within: Bounded
    """Reliability of one judgement within the answers to a question."""
    flips: Bounded
    """Share of advantages whose sign a second judgement turns."""
    tau2: Bounded
    """Variance of a criterion's score over judgements of the same answer."""


class JudgePair(_Part):
    """Two judges on the same answers."""

    a: str
    b: str
    responses: int
    bias: Bounded
    spearman: Bounded
    kappa: Bounded


class Reliability(_Part):
    """A study of judges."""

    tasks: int
    responses: int
    confidence: float
    judges: tuple[JudgeNoise, ...]
    pairs: tuple[JudgePair, ...] = ()


def read_reliability(path: Path) -> Reliability:
    """Read reliability.json, named itself or by its folder.

    Raises:
        RubricFileError: no such file, or not such a study.
    """
    file = path / "reliability.json" if path.is_dir() else path
    try:
        return Reliability.model_validate_json(read_file(file))
    except FileNotFoundError:
        raise RubricFileError(
            "no such study; name the reliability.json that `rubric-judge reliability` wrote",
            path=file,
        ) from None
    except ValidationError as error:
        remedy = "name a reliability.json that `rubric-judge reliability` wrote"
        raise RubricFileError.of_validation(error, remedy, path=file) from None
