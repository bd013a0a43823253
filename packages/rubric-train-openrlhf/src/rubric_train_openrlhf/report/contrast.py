"""The optional comparison.json: stages and controls on the same test questions.

Whoever evaluates the run writes it; only what the page shows is read. What the judge knew of those
questions is read from the tasks, where whoever makes the page asks for it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from pydantic import BaseModel, ConfigDict, model_validator

from rubric_core import Task, read_tasks
from rubric_core.files import toml_beside
from rubric_judge.judges.lexical.scoring import missing_terms
from rubric_judge.statistics.estimate import MeanRecord
from rubric_judge.ui.page.grounding import told_grounding
from rubric_judge.ui.page.tables import Cell, Row, Table
from rubric_train_openrlhf.errors import TrainConfigError

ANSWERS = "same-questions"
"""Place of the page that has the answers of all stages to the same questions."""
_TABLES = toml_beside(__file__, "tables.toml")


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)


class Stage(MeanRecord, _Part):
    """Test reward of one stage or control."""

    label: str = ""
    zero_frac: float | None = None
    criteria: dict[str, float] = {}


class Difference(MeanRecord, _Part):
    """Mean of a − b over the same questions."""

    a: str
    b: str


class SameQuestion(_Part):
    """Answers of each stage to one test question."""

    task_id: str = ""
    question: str
    answers: dict[str, str]
    rewards: dict[str, float | None] = {}
    """Reward in [0, 1] by stage; None where an answer could not be judged."""


class Contrast(_Part):
    """Stages, controls and paired differences."""

    heldout: dict[str, Stage]
    """Stages in the order in which they were trained."""
    controls: dict[str, Stage] = {}
    differences: tuple[Difference, ...] = ()
    result: str = ""
    """The last stage against the others and the strongest control, in a sentence."""
    claim: str = ""
    """Conclusion that the numbers allow, with its limits."""
    judge: str = ""
    confidence: float = 0.95
    samples: int | None = None
    answers: tuple[SameQuestion, ...] = ()
    answers_greedy: bool = False
    """Whether the shown answers are greedy, where the rewards above may be of sampled ones."""

    @model_validator(mode="before")
    @classmethod
    def _lift_controls(cls, values: object) -> object:
        """Take the controls out of `heldout`, where the file keeps them beside the stages."""
        if not isinstance(values, dict):
            return values
        document = cast("dict[str, Any]", values)
        match document.get("heldout"):
            case {"controls": controls, **stages}:
                return {**document, "heldout": stages, "controls": controls}
            case _:
                return document

    def label(self, name: str) -> str:
        """Return the label of a stage or control."""
        row = self.heldout.get(name) or self.controls.get(name)
        return (row.label if row else "") or name.replace("_", " ")

    def tables(self) -> list[Table]:
        """Rewards, paired differences and criteria, as far as there are any."""
        tables = (self._rewards(), self._differences(), self._criteria())
        return [table for table in tables if table.rows]

    def _link(self, *stages: str) -> str:
        """Return the place of the shown answers, where one is of these stages; else empty."""
        shown = {name for question in self.answers for name in question.answers}
        return f"#{ANSWERS}" if shown.intersection(stages) else ""

    def _rewards(self) -> Table:
        responses = "response" if self.samples == 1 else "responses"
        rows: list[Row] = []
        for stages, group, role in (
            (self.heldout, "", "other"),
            (self.controls, "Controls", ""),
        ):
            for name, row in stages.items():
                cells = (
                    Cell.of(row.estimate),
                    Cell(value=row.zero_frac),
                    Cell(value=row.n),
                )
                link = self._link(name)
                rows.append(
                    Row(
                        name=self.label(name),
                        group=group,
                        cells=cells,
                        role=role,
                        link=link,
                    )
                )
        return self._table(
            "rewards",
            rows,
            samples=f"; {self.samples} {responses} a question" if self.samples else "",
            judge=f"; judged by {self.judge}" if self.judge else "",
        )

    def _differences(self) -> Table:
        rows = (
            Row(
                name=f"{self.label(row.a)} − {self.label(row.b)}",
                cells=(Cell.of(row.estimate), Cell(value=row.n)),
                role="other" if row.b in self.heldout else "",
                link=self._link(row.a),
            )
            for row in self.differences
        )
        return self._table("differences", rows)

    def _criteria(self) -> Table:
        names: dict[str, None] = {}
        for row in self.heldout.values():
            names |= dict.fromkeys(row.criteria)
        stages = self.heldout.values()
        rows = (
            Row(
                name=name,
                cells=tuple(Cell(value=row.criteria.get(name)) for row in stages),
                link=self._link(*self.heldout),
            )
            for name in names
        )
        return self._table(
            "criteria", rows, {key: self.label(key) for key in self.heldout}
        )

    def _table(
        self,
        section: str,
        rows: Iterable[Row],
        each: Mapping[str, str] | None = None,
        **values: str,
    ) -> Table:
        level = f"{100 * self.confidence:g} %"
        words = _TABLES[section]
        return Table.from_words(
            words, rows, each, key=f"contrast-{section}", level=level, **values
        )


def revealed_tasks(
    config: Mapping[str, Any], files: Sequence[Path] = ()
) -> dict[str, Task]:
    """Read the tasks whose passages and rubrics a page is to show.

    Args:
        config: of the run, which names its tasks.
        files: of tasks, in place of those of the run and of a test.jsonl beside them.

    Raises:
        ConfigError: none of the run's files is there any more.
        RubricFileError: a damaged file.
    """
    data: Mapping[str, Any] = config.get("data") or {}
    own = [Path(data[name]) for name in ("train", "validation") if data.get(name)]
    own += [path.with_name("test.jsonl") for path in own[:1]]
    chosen = list(files) or [path for path in own if path.is_file()]
    if not chosen:
        named = f" ({own[0]})" if own else ""
        raise TrainConfigError(
            f"--reveal-grounding: the tasks of this run are not there{named}; name their file "
            "by --tasks",
            location="reveal-grounding",
        )
    return {task.task_id: task for path in chosen for task in read_tasks(path)}


@dataclass(frozen=True)
class KnownQuestion:
    """The judge's knowledge of a question that all stages answered."""

    passage: str
    lacks: Table
    """Table of the criteria: their texts, and the terms that each stage's answer lacks."""


def known_questions(
    contrast: Contrast, tasks: Mapping[str, Task]
) -> list[KnownQuestion | None]:
    """Return the judge's knowledge of each question of a comparison; None without its task."""
    stages = contrast.heldout
    header = (
        "criterion",
        "asks for",
        *(f"{contrast.label(name)} lacks" for name in stages),
    )
    known: list[KnownQuestion | None] = []
    for question in contrast.answers:
        task = tasks.get(question.task_id)
        if task is None:
            known.append(None)
            continue
        texts = [question.answers.get(name, "") for name in stages]
        known.append(_known(task, header, texts))
    return known


def _known(
    task: Task, header: tuple[str, ...], answers: Sequence[str]
) -> KnownQuestion:
    grounding = told_grounding(task)
    rows: list[tuple[str, ...]] = []
    for criterion, entry in zip(task.rubric, grounding["rubric"], strict=True):
        lacks = [" · ".join(missing_terms(criterion, text)) or "–" for text in answers]
        rows.append((entry["id"], entry["text"], *lacks))
    table = Table.from_texts("What each answer lacks", header, tuple(rows))
    return KnownQuestion(grounding["passage"], table)
