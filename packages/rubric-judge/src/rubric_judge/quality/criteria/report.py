"""The report of a log's criteria: figures, their table, and what to do."""

from collections.abc import Iterator
from typing import Literal

from rubric_judge.ui.page.tables import Cell, Column, Part, Report, Row, Table, counted

_NEARLY_ALL = 0.9
"""Least share of groups for what is said of nearly all of them, such as that it is dead."""
_MOSTLY = 0.5
"""Least share for what is said of most groups or answers."""
_FEWEST_GROUPS = 8
"""Fewer groups say nothing about a criterion."""
_MOST_ROWS = 40
"""Rows of a printed table; JSON has all."""

_COLUMNS = (
    Column(key="share", title="weight %", form="percent"),
    Column(key="mean", title="mean %", form="percent"),
    Column(key="spread", title="spread", form="decimal"),
    Column(key="noise", title="noise", form="decimal"),
    Column(key="saturated", title="all met %", form="percent"),
    Column(key="constant", title="dead %", form="percent"),
    Column(key="held_down", title="held down %", form="percent"),
    Column(key="gradient", title="gradient %", form="percent"),
    Column(key="idle_tokens_frac", title="idle tokens %", form="percent"),
    Column(key="groups", title="groups", form="count"),
    Column(key="scores", title="scores", form="count"),
    Column(key="failed", title="failed", form="count"),
)


class CriterionLife(Part):
    """Figures of the criteria of one pool, or of one prompt."""

    name: str
    prompts: int
    groups: int
    """Times that a criterion of it was compared within a group of at least two scored answers."""
    scores: int
    invalid: int
    """Scores that are missing because a reply was out of contract; in no mean."""
    unavailable: int
    """Scores that are missing because the judge was not reached; in no mean."""
    share: float
    """Mean α_j."""
    mean: float | None
    """Mean z = s / w of the scores."""
    spread: float | None
    """Mean standard deviation of z within a group."""
    saturated: float | None
    """Share of groups in which every answer has all of the weight."""
    unmet: float | None
    """Share of groups in which no answer has any of the weight."""
    constant: float | None
    """Share of groups in which every answer has the same score."""
    held_down: float | None
    """Share, of answers above their group's mean on it, of those whose advantage is not above 0."""
    gradient: float | None
    """Its part of the sum of squared advantages; negative where it works against the sum."""
    noise: float | None
    """Standard deviation of z over judgements of the same answer; None where it is not known."""
    tokens: float | None
    """Tokens of the judge, a call's divided equally among its criteria; None where unknown."""
    idle_tokens: float | None
    """Those that no advantage could depend on."""

    @property
    def failed(self) -> int:
        """Scores that are missing because the judgement failed."""
        return self.invalid + self.unavailable

    @property
    def idle_tokens_frac(self) -> float | None:
        """Share of its tokens that no advantage could depend on."""
        if self.idle_tokens is None or not self.tokens:
            return None
        return self.idle_tokens / self.tokens


class CriteriaReport(Report):
    """The criteria of a log, or its prompts."""

    source: str
    """Format of the log."""
    by: Literal["criterion", "prompt"]
    steps: int
    """Number of steps; 0 where the log has none."""
    prompts: int
    groups: int
    responses: int
    invalid: int
    unavailable: int
    cells: int
    """Times that a criterion was compared in a group."""
    constant_frac: float | None
    """Share of them in which all scores are equal."""
    constant_weight_frac: float | None
    """Share of the weight that they carry."""
    idle_frac: float | None
    """Share of all cells in which the reward saw no difference."""
    tokens: float | None
    """Tokens of the judge; None where the log does not say."""
    idle_tokens: float | None
    """Those spent on cells in which the reward saw no difference."""
    untold_tokens: int
    """Responses whose tokens are not known, such as those that no judge was asked about."""
    rows: tuple[CriterionLife, ...]
    notes: tuple[str, ...] = ()

    @property
    def heading(self) -> str:
        """Title of the report."""
        return "The life of each criterion" if self.by == "criterion" else "Prompts"

    def summary(self) -> str:
        """Return the size of the log, and how much of the judging could not matter."""
        amounts = [counted(self.steps, "step")] if self.steps else []
        amounts += [
            counted(self.prompts, "prompt"),
            counted(self.groups, "group"),
            counted(self.responses, "response"),
        ]
        failed = f"{self.invalid:,} invalid, {self.unavailable:,} unavailable"
        sentences = [f"{', '.join(amounts)} ({failed})."]
        if self.constant_frac is not None and self.constant_weight_frac is not None:
            sentences.append(
                f"In {self.constant_frac:.1%} of {self.cells:,} comparisons of a criterion in a "
                "group all answers had the same score; these carry "
                f"{self.constant_weight_frac:.1%} of the weight."
            )
        if self.tokens and self.idle_tokens is not None:
            part = self.idle_tokens / self.tokens
            sentences.append(
                f"{part:.1%} of the judge's {self.tokens:,.0f} tokens could not change an "
                "advantage, each judgement's tokens divided equally among its criteria."
            )
        return " ".join(sentences)

    def method(self) -> str:
        """Return how the figures are meant."""
        return (
            "Means and spreads are of scored answers; no failure is in them. "
            "Dead: all answers of a group have the same score, so that the criterion cancels from "
            "their advantages. Held down: above the group's mean on the criterion, and an "
            "advantage that is not above 0. Gradient: part of the sum of squared advantages."
        )

    def table(self, *, most: int | None = None) -> Table:
        """Return the table of the rows: most gradient first; of prompts, those most often dead.

        Args:
            most: number of rows; all if None.
        """
        rows = self.rows if most is None else self.rows[:most]
        columns = [column for column in _COLUMNS if self._has(column.key)]
        shown = (
            Row(
                name=life.name,
                cells=tuple(
                    Cell(value=getattr(life, column.key)) for column in columns
                ),
            )
            for life in rows
        )
        return Table(
            title="",
            first=self.by,
            columns=tuple(columns),
            rows=tuple(shown),
        )

    def _has(self, key: str) -> bool:
        """Return whether a column has a figure; those that the log cannot tell are left out."""
        if key == "share":  # the mean over a prompt's criteria tells nothing
            return self.by == "criterion"
        if key in {"noise", "idle_tokens_frac", "gradient", "held_down"}:
            return any(getattr(life, key) is not None for life in self.rows)
        return key != "failed" or any(life.failed for life in self.rows)

    def tables(self) -> list[Table]:
        """Return the table, and what to do about its criteria."""
        return [self.table_shown(), self.remedies()]

    def table_shown(self) -> Table:
        """Return the rows that a terminal is shown."""
        return self.table(most=_MOST_ROWS)

    def remedies(self) -> Table:
        """Return the criteria or prompts that something should be done about, with what."""
        advice = _advice if self.by == "criterion" else _prompt_advice
        rows = [(life.name, text) for life in self.rows for text in advice(life)]
        return Table.from_texts("What to do", (self.by, "what to do"), rows)


def _advice(life: CriterionLife) -> Iterator[str]:
    """Say what to do about a criterion, the most serious first."""
    if life.groups < _FEWEST_GROUPS or life.constant is None:
        return
    if life.constant >= _NEARLY_ALL:
        yield _of_dead(life)
        return
    if (life.saturated or 0.0) >= _MOSTLY:
        yield (
            f"met by all answers in {life.saturated:.0%} of the groups: ask for more before it "
            "is met everywhere"
        )
    if (life.unmet or 0.0) >= _MOSTLY:
        yield (
            f"met by no answer in {life.unmet:.0%} of the groups: see whether the reference "
            "answers meet it; those that do not are out of reach"
        )
    if (life.held_down or 0.0) >= _MOSTLY:
        yield (
            f"{life.held_down:.0%} of the answers that do better on it get no push up: other "
            "criteria outweigh it; raise its weight, or try `advantage.estimator: decoupled`"
        )
    if life.noise is not None and life.spread is not None and life.noise >= life.spread:
        yield (
            f"the judge's noise ({life.noise:.2f}) is no less than the spread within a group "
            f"({life.spread:.2f}): calibrate it, or ask a stronger judge"
        )


def _prompt_advice(life: CriterionLife) -> Iterator[str]:
    """Say what to do about a prompt whose answers do not differ."""
    if (life.constant or 0.0) < _NEARLY_ALL:
        return
    if (life.saturated or 0.0) >= _NEARLY_ALL:
        yield "every answer meets everything: leave it out"
    elif (life.unmet or 0.0) >= _NEARLY_ALL:
        yield "no answer meets anything: too hard as yet; leave it out, or warm-start on it"
    else:
        yield "its answers do not differ: leave it out, or sample more of them"


def _of_dead(life: CriterionLife) -> str:
    """Say what to do about a criterion that is dead in nearly all groups."""
    saturated = life.saturated or 0.0
    unmet = life.unmet or 0.0
    if saturated >= _NEARLY_ALL:
        return "met by every answer: drop it, or ask for more than every answer says"
    if unmet >= _NEARLY_ALL:
        return (
            "never met: judge the reference answer on it; if that fails too it is out of reach: "
            "rewrite it or drop it; if it passes, the policy needs to be shown (a warm start)"
        )
    if saturated + unmet >= _NEARLY_ALL:
        return (
            "decided by the prompt: all answers meet it or none does; it teaches nothing within a "
            "group: ask for what answers to the same prompt differ in"
        )
    return (
        "always the same partial score: the judge does not tell answers apart on it; give it "
        "levels that it can tell, split it, or calibrate the judge on it"
    )
