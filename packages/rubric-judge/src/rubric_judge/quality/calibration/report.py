"""A calibration for people to read: a summary, tables, a Markdown page, and next steps."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from pydantic import Field

from rubric_core.files import toml_beside
from rubric_judge.quality.calibration import record
from rubric_judge.statistics.estimate import UNKNOWN, Estimate
from rubric_judge.ui.page.tables import Report, Table, counted, markdown_page

WORDS = toml_beside(__file__, "words.toml")
"""Titles and columns of the tables."""

KNOWN_BY_NAME = (
    "The judgements tell the judge's name and nothing of its model, prompt or "
    "parameters: give its configuration with --judge, so that the calibration is of "
    "that judge only."
)
"""Note on a calibration whose judge has no fingerprint."""


class CalibrationReport(record.Calibration, Report):
    """A calibration that can be shown."""

    given: int = Field(exclude=True)
    """Number of scores of all raters: one of each rater for a response and criterion."""
    pairs: int = Field(exclude=True)
    """Number of pairs of response and criterion that have a label and a score."""
    admitted: float | None = Field(exclude=True)
    """Share of the labelled weight that enters the reward as it is."""

    def counts(self) -> str:
        """Return the numbers of labels, raters and pairs, in words."""
        return (
            f"{counted(self.given, 'label')} by {counted(len(self.raters), 'rater')} on "
            f"{counted(self.pairs, 'response–criterion pair')}"
        )

    def summary(self) -> str:
        """Return the judge's name, and the number of criteria of each verdict."""
        order = list(record.Verdict)
        by_verdict = sorted(
            self.criteria, key=lambda calibration: order.index(calibration.verdict)
        )
        counts = Counter(criterion.decision for criterion in by_verdict)
        verdicts = ", ".join(f"{words} {count}" for words, count in counts.items())
        admitted = self.admitted
        weight = (
            f"; {admitted:.0%} of the labelled weight is admitted" if admitted else ""
        )
        return (
            f"{self.judge}, against {self.counts()}. "
            f"{counted(len(self.criteria), 'criterion', 'criteria')}: {verdicts}{weight}."
        )

    def tables(self) -> list[Table]:
        """Return tables of verdicts, reasons and the reward; a dash where labels cannot tell."""
        doubted = [
            criterion
            for criterion in self.criteria
            if criterion.verdict != record.Verdict.ADMIT
        ]
        shared = ((_listed(names), *why) for why, names in by_reason(doubted).items())
        return [
            Table.from_forms(
                WORDS["verdicts"], ([criterion] for criterion in self.criteria)
            ),
            Table.from_forms(WORDS["reasons"], shared),
            Table.turned(WORDS["reward"], [[self.reward, len(self.reward.pairs)]]),
        ]

    def score_tables(self) -> list[Table]:
        """Return the tables too long for a terminal: graded scores, and the same by the label."""
        return [
            Table.from_forms(WORDS["kinds"], ([kind] for kind in self.kinds)),
            Table.from_forms(
                WORDS["scores"],
                ([criterion] for criterion in self.criteria if criterion.labels),
            ),
            _level_table("Bias by the label", self.criteria, lambda level: level.bias),
            _level_table(
                "Noise τ_j² by the label", self.criteria, lambda level: level.noise
            ),
        ]

    @property
    def heading(self) -> str:
        """Heading of the report."""
        return "Calibration of a judge"

    def method(self) -> str:
        """Return a description of how the intervals were made."""
        return (
            f"In brackets: {self.confidence:.0%} intervals, for which the labels of one "
            "document go together: Wilson's for TPR and FPR and the difference of both "
            "for J, Student's for biases, BCa bootstrap for the rest "
            f"({self.resamples} draws, seed {self.seed}). Met: at least half of the "
            "weight. A dash: the labels cannot say."
        )

    def markdown(self, figures: Sequence[str]) -> str:
        """Return the report as a page; see `Report.markdown`."""
        opening = "\n\n".join([self.summary(), self.method(), *self.notes])
        tables = [*self.tables(), *self.score_tables()]
        return markdown_page(self.heading, opening, tables, figures)


def _level_table(
    title: str,
    criteria: Sequence[record.CriterionCalibration],
    of: Callable[[record.LevelCalibration], Estimate],
) -> Table:
    """Return a table of one figure by the level of the label; criteria without it are left out."""
    rows: list[tuple[str, ...]] = []
    for criterion in criteria:
        estimates = {(level.low, level.high): of(level) for level in criterion.levels}
        if any(figure.value is not None for figure in estimates.values()):
            cells = (estimates.get(level, UNKNOWN) for level in record.LEVELS)
            rows.append((criterion.criterion, *(cell.text() for cell in cells)))
    header = ("criterion", "label z = 0", "below ½", "from ½", "1")
    return Table.from_texts(title, header, tuple(rows))


_SHOWN = 8
"""Most criteria that a step names."""


class Files(NamedTuple):
    """Files of a calibration, as they were named."""

    tasks: str = "TASKS"
    responses: str = "RESPONSES"
    calibration: str = "calibration.json"
    labels: str = "LABELS"
    """The file, or "LABELS" for several; empty where answers were written with a known truth."""
    is_all_labelled: bool = False
    """Whether each criterion with weight of each response has a label."""
    is_drawn: bool = True
    """Whether labels hold `inclusion`, so that `rubric-judge label` can go on with them."""


class Step(NamedTuple):
    """One thing to do."""

    what: str
    how: str = ""
    """A command, or lines of a configuration; empty where a person has to think."""


def next_steps(calibration: record.Calibration, files: Files) -> list[Step]:
    """Return the steps that the verdicts ask for, in order."""
    steps: list[Step] = []
    named = _named(calibration, record.Verdict.MORE_LABELS)
    if named:
        steps.append(_more_labels(files, named))
    named = _named(calibration, record.Verdict.REWRITE)
    if named:
        steps.append(Step(f"word anew, then label and calibrate: {named}"))
    named = _named(calibration, record.Verdict.STRONGER_JUDGE)
    if named:
        steps.append(Step(f"calibrate a stronger judge: {named}"))
    if KNOWN_BY_NAME in calibration.notes:
        again = (
            "--judge JUDGE.yaml   # the same command; rubric-train and rubric-eval refuse "
            "a judge known by name"
        )
        steps.append(Step("calibrate with --judge beside --judgements", again))
    elif any(criterion.factor for criterion in calibration.criteria):
        setting = (
            f"judge:\n  calibration: {files.calibration}\n"
            "  uncalibrated: mask   # those without labels; else training does not start"
        )
        steps.append(
            Step(
                "train on what is admitted: beside judge.spec of rubric-train", setting
            )
        )
    return steps


def _more_labels(files: Files, named: str) -> Step:
    if not files.labels:
        more = f"rubric-judge label {files.tasks} --write --out {files.responses}"
        return Step(f"write answers to more tasks, then calibrate again: {named}", more)
    then = f"then calibrate on all labels: {named}"
    label = f"rubric-judge label {files.tasks} {files.responses}"
    no_draw = (
        "as those that are there (without `inclusion`, `rubric-judge label` adds "
        "none to them)"
    )
    if files.is_all_labelled:
        add = f"every response is labelled: add answers at the end of {files.responses}, score them"
        if files.is_drawn:
            counted_all = f"{label} --out {files.labels} --count COUNT"
            return Step(
                f"{add} and label them, with a --count for all labels, {then}",
                counted_all,
            )
        return Step(f"{add} and label them {no_draw}, {then}")
    if not files.is_drawn:
        return Step(f"label more in the same way {no_draw}, {then}")
    same = "the same command as before with a larger --count after the first"
    larger = f"--judgements JUDGED --out {files.labels} --count COUNT --count LARGER"
    return Step(f"label more, {same}, {then}", f"{label} {larger}")


def by_reason(
    criteria: Iterable[record.CriterionCalibration],
) -> dict[tuple[record.Verdict, str], list[str]]:
    """Return the names of the criteria that share a verdict and its reason, mostly one."""
    shared: dict[tuple[record.Verdict, str], list[str]] = {}
    for criterion in criteria:
        key = criterion.verdict, criterion.reason
        shared.setdefault(key, []).append(criterion.criterion)
    return shared


def _named(calibration: record.Calibration, verdict: record.Verdict) -> str:
    names = [
        criterion.criterion
        for criterion in calibration.criteria
        if criterion.verdict is verdict
    ]
    return _listed(names)


def _listed(names: Sequence[str]) -> str:
    others = len(names) - _SHOWN
    more = ""
    if others > 0:
        more = f" and {counted(others, 'other')}"
    return ", ".join(names[:_SHOWN]) + more
