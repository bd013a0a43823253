"""A calibration as people read it: a sentence, tables, and a page in Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from pydantic import Field

from rubric_judge.calibration.record import (
    LEVELS,
    Calibration,
    CriterionCalibration,
    LevelCalibration,
    RewardCalibration,
    Verdict,
)
from rubric_judge.estimates import UNKNOWN, Estimate
from rubric_judge.page.tables import Report, TextTable, counted, markdown_page, or_dash


class CalibrationReport(Calibration, Report):
    """A calibration that can be shown."""

    given: int = Field(exclude=True)
    """Scores of all raters together: a response and criterion has one of each rater."""

    def counts(self) -> str:
        """Return how many labels of how many raters there are, on how many pairs."""
        pairs = sum(one.labels for one in self.criteria)
        return (
            f"{counted(self.given, 'label')} by {counted(len(self.raters), 'rater')} on "
            f"{counted(pairs, 'response–criterion pair')}"
        )

    def summary(self) -> str:
        """Return whose calibration it is, and how many criteria each verdict has."""
        counts = Counter(one.verdict for one in self.criteria)
        verdicts = ", ".join(f"{one.words} {counts[one]}" for one in Verdict if counts[one])
        total = sum(one.labels * one.share for one in self.criteria)
        kept = sum(one.labels * one.share for one in self.criteria if one.factor == 1)
        weight = f"; {kept / total:.0%} of the labelled weight is admitted" if kept else ""
        return (
            f"{self.judge}, against {self.counts()}. "
            f"{counted(len(self.criteria), 'criterion', 'criteria')}: {verdicts}{weight}."
        )

    def tables(self) -> list[TextTable]:
        """Return verdicts, their reasons and the reward; a dash: the labels cannot say."""
        return [
            verdict_table(self.criteria),
            _reasons(self.criteria),
            reward_table(self.reward),
        ]

    def score_tables(self) -> list[TextTable]:
        """Return what is too long for a terminal: graded scores, and the same by the label."""
        return [
            score_table(self.criteria),
            _level_table("Bias by the label", self.criteria, lambda level: level.bias),
            _level_table("Noise τ_j² by the label", self.criteria, lambda level: level.noise),
        ]

    @property
    def heading(self) -> str:
        """What the report is of."""
        return "Calibration of a judge"

    def method(self) -> str:
        """Return how the intervals were made."""
        return (
            f"In brackets: {self.confidence:.0%} intervals, for which the labels of one document "
            "go together: Wilson's for TPR and FPR and the difference of both for J, Student's for "
            f"biases, BCa bootstrap for the rest ({self.resamples} draws, seed {self.seed}). "
            "Met: at least half of the weight. A dash: the labels cannot say."
        )

    def markdown(self, figures: Sequence[str]) -> str:
        """Write it as a page; see `Report.markdown`."""
        opening = "\n\n".join([self.summary(), self.method(), *self.notes])
        tables = [*self.tables(), *self.score_tables()]
        return markdown_page(self.heading, opening, tables, figures)


def verdict_table(criteria: Sequence[CriterionCalibration]) -> TextTable:
    """Return the verdicts with the rates that they are made of."""
    header = ("criterion", "J", "TPR", "FPR", "met/pairs", "factor", "verdict")
    rows = tuple(
        (
            one.criterion,
            one.youden_j.text(),
            or_dash(one.tpr.value, ".2f"),
            or_dash(one.fpr.value, ".2f"),
            f"{one.positives}/{one.labels}",
            f"{one.factor:.2f}",
            one.verdict.words,
        )
        for one in criteria
    )
    return TextTable("What to do with each criterion", header, rows)


def _reasons(criteria: Sequence[CriterionCalibration]) -> TextTable:
    rows = tuple((one.criterion, one.reason) for one in criteria if one.verdict != Verdict.ADMIT)
    return TextTable("Why", ("criterion", "reason"), rows)


def score_table(criteria: Sequence[CriterionCalibration]) -> TextTable:
    """Return how near the judge's scores are to the labels."""
    header = ("criterion", "bias", "ordinal α", "α of people", "τ_j²")
    rows = tuple(
        (
            one.criterion,
            one.bias.text(),
            one.agreement.text(),
            one.people.text(),
            one.noise.text(".4f"),
        )
        for one in criteria
        if one.labels
    )
    return TextTable("Scores: judge − label, agreement, noise", header, rows)


def _level_table(
    title: str, criteria: Sequence[CriterionCalibration], of: Callable[[LevelCalibration], Estimate]
) -> TextTable:
    """Return one figure by what people gave; without a row where no level has it."""
    rows: list[tuple[str, ...]] = []
    for one in criteria:
        found = {(level.low, level.high): of(level) for level in one.levels}
        if any(figure.value is not None for figure in found.values()):
            cells = (found.get(level, UNKNOWN) for level in LEVELS)
            rows.append((one.criterion, *(cell.text() for cell in cells)))
    header = ("criterion", "label z = 0", "below ½", "from ½", "1")
    return TextTable(title, header, tuple(rows))


def reward_table(reward: RewardCalibration) -> TextTable:
    """Return the whole reward's figures."""
    rows = (
        ("J of all criteria together", reward.youden_j.text()),
        ("TPR", reward.tpr.text()),
        ("FPR", reward.fpr.text()),
        ("responses with both rewards", str(len(reward.pairs))),
        ("bias: judge − label", reward.bias.text(".3f")),
        ("Pearson's r of both", reward.correlation.text()),
        ("advantages whose sign the labels turn", reward.flips.text(".1%")),
        ("correlation of errors between criteria", reward.error_correlation.text()),
        ("variance of the error / independent errors", reward.error_inflation.text()),
        ("noise τ²/M_eff, predicted", reward.predicted.text(".4f")),
        ("noise Σα²τ², predicted", reward.independent.text(".4f")),
        ("noise, measured", reward.measured.text(".4f")),
        ("measured / Σα²τ²", reward.inflation.text()),
    )
    return TextTable("The whole reward", ("", "value"), rows)
