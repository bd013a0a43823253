"""Evidence against a gain: signs that a policy learned the judge, and the judge's own noise."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from rubric_core import RubricFileError, Task
from rubric_core.files import read_file
from rubric_core.rows import row_error
from rubric_eval.hacking.evaluation import hacking_panel
from rubric_eval.hacking.results import HackingPanel, HackingSettings
from rubric_eval.records.digests import read_derived
from rubric_eval.records.inputs import is_made_of
from rubric_eval.report.reading import Evaluation
from rubric_eval.report.tables import row, table_of
from rubric_judge.ui.page.tables import Cell, Table


@dataclass(frozen=True)
class Signs:
    """Panel of hacking signs, and whether hacking.json was out of date."""

    panel: HackingPanel
    is_anew: bool


def signs(heldout: Evaluation, tasks: Mapping[str, Task] | None) -> Signs:
    """Read hacking.json if it is up to date, and look for the signs here otherwise.

    Args:
        heldout: the evaluation.
        tasks: tasks whose criteria may be echoed in the answers.

    Raises:
        RubricFileError: hacking.json holds no such panel.
        ComparisonError, EvalShapeError: there is no answer to look at.
    """
    path = heldout.folder.hacking
    stored = read_derived(path, HackingPanel, command="rubric-eval hacking")
    if stored is not None and is_made_of(
        stored.inputs, [stored.folder], beside=path, folders=[heldout.folder]
    ):
        return Signs(stored, is_anew=False)
    judges = list(heldout.groups)
    second = judges[1] if len(judges) > 1 else None
    settings = HackingSettings(judge=judges[0], second=second)
    by_second = heldout.judged.get(settings.second or "", {})
    panel = hacking_panel(
        heldout.judged[settings.judge],
        settings,
        tasks=(tasks or {}).values(),
        second={model: judged.rewards for model, judged in by_second.items()},
    )
    return Signs(panel, is_anew=stored is not None)


def signs_table(hacking_signs: Signs) -> Table:
    """Make the table of signs in the answers of each model."""
    panel = hacking_signs.panel
    second = {opinion.model: opinion.second_mean for opinion in panel.opinions}
    rows = (
        row(
            model.model,
            model.words,
            model.reward_length,
            model.reward_length_within,
            model.hedges,
            model.appeals,
            model.echoes,
            second.get(model.model),
        )
        for model in panel.models
    )
    return table_of("hacking_signs", rows, judge=panel.settings.judge)


class _Part(BaseModel):
    """Part of reliability.json that the page uses; the file holds more."""

    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)


class Bounded(Cell):
    """A number and its interval as a table cell; None where the data do not determine it."""

    model_config = ConfigDict(extra="ignore")


class JudgeNoise(_Part):
    """One judge on its own."""

    judge: str
    judgements: int
    icc1_within: Bounded
    """Reliability of one judgement within the answers to a question."""
    flips: Bounded
    """Share of advantages whose sign a second judgement reverses."""
    tau2: Bounded
    """Variance of a criterion's score over judgements of the same answer."""


class JudgeAgreement(_Part):
    """Two judges on the same answers."""

    a: str
    b: str
    responses: int
    bias: Bounded
    spearman: Bounded
    kappa: Bounded


class Reliability(_Part):
    """Results of a reliability study of judges."""

    tasks: int
    responses: int
    confidence: float
    judges: tuple[JudgeNoise, ...]
    pairs: tuple[JudgeAgreement, ...] = ()


def read_reliability(path: Path) -> Reliability:
    """Read reliability.json, given as the file or its folder.

    Raises:
        RubricFileError: there is no such file, or it holds no reliability study.
    """
    file = path / "reliability.json" if path.is_dir() else path
    try:
        return Reliability.model_validate_json(read_file(file))
    except FileNotFoundError:
        remedy = "name the reliability.json that `rubric-judge reliability` wrote"
        raise RubricFileError(f"no such study; {remedy}", path=file) from None
    except ValidationError as error:
        remedy = "name a reliability.json that `rubric-judge reliability` wrote"
        raise row_error(error, remedy, path=file) from None
