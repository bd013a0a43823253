"""The report of a reliability study, which is written to `reliability.json`."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field

from rubric_core.files import toml_beside
from rubric_judge.quality.reliability.ratings import JudgementCost
from rubric_judge.statistics.estimate import UNKNOWN, Estimate
from rubric_judge.ui.page.charts import Bars
from rubric_judge.ui.page.tables import Part, Report, Table, counted, or_dash


class CriterionNoise(Part):
    """Test–retest noise of one criterion under one judge."""

    judge: str
    criterion: str
    """Id of the criterion; tasks that share it are pooled."""
    tasks: int
    responses: int
    """Number of responses with at least two scored replicates."""
    share: float
    """Mean α_j over those responses."""
    tau2: Estimate
    """τ_j²: variance of z_j over replicates."""


class JudgeReliability(Part):
    """One judge on its own."""

    judge: str
    judgements: int
    replicates: int
    """Most judgements of one response."""
    invalid_frac: float
    unavailable_frac: float
    reasons: dict[str, int]
    """Judgements without scores, by reason. None of them enters a statistic."""
    cost: JudgementCost
    """Mean cost of a judgement."""
    mean_reward: Estimate
    tau2: Estimate
    """τ²: variance of z over replicates, pooled over criteria."""
    predicted: Estimate
    """τ² / M_eff: the paper's prediction of the variance of the reward."""
    independent: Estimate
    """Σ α_j² τ_j²: the prediction with each criterion's own noise."""
    measured: Estimate
    """Variance of the reward over replicates, which is αᵀΣα."""
    inflation: Estimate
    """measured / independent: above 1 where criteria err together."""
    icc1: Estimate
    """ICC(1): one-way random effects, single judgement, over all responses."""
    icc1_within: Estimate
    """The same within the group of a task, where the advantage is formed."""
    flips: Estimate
    """Share of advantages whose sign two judgements of the same group give differently."""
    flipped_weight: Estimate
    """Share of |A| that these flipped advantages have."""
    groups: int
    """Tasks with at least two responses judged at least twice."""
    constant_frac: Estimate
    """Share of judged groups whose rewards are all equal: no advantage at all."""
    below_noise_frac: Estimate
    """Share of groups whose spread, noise taken off, is below the noise of one judgement."""
    m_eff: float | None = None
    """M_eff of the rubrics of the responses that the reference scored, by their weights alone."""
    effective_criteria: Estimate = UNKNOWN
    """The same by errors against the reference; see `shared_errors.effective_criteria`."""
    replicates_needed: dict[str, int | None]
    """Number of judgements to average (Spearman–Brown), by target reliability within groups."""

    @property
    def needed(self) -> str:
        """The numbers of `replicates_needed` as text."""
        counts = [or_dash(count, "d") for count in self.replicates_needed.values()]
        return " / ".join(counts) or "–"


class PairAgreement(Part):
    """Two judges, one judgement each, on the responses that both scored."""

    a: str
    b: str
    responses: int
    bias: Estimate
    """Mean of reward(a) − reward(b)."""
    spearman: Estimate
    kendall: Estimate
    """τ-b over all responses."""
    kendall_within: Estimate
    """Mean over tasks of τ-b within the task's responses."""
    kappa: Estimate
    """Quadratically weighted κ of criterion scores, all criteria pooled."""


class PanelAgreement(Part):
    """All judges together, one judgement each."""

    judges: int
    responses: int
    """Number of responses that every judge scored."""
    icc_a1: Estimate
    """ICC(A,1): two-way random effects, absolute agreement, single judgement, of rewards."""
    alpha: Estimate
    """Krippendorff's α of criterion scores, interval metric."""
    alpha_by_criterion: dict[str, float | None]
    effective_judges: Estimate
    """(Σλ)² / Σλ² over the eigenvalues of the correlation matrix of the judges' rewards."""
    effective_judges_by_errors: Estimate = UNKNOWN
    """Effective number of the judges beside the reference, by errors against it."""
    effective_without_weakest: Estimate = Field(
        default=UNKNOWN, exclude_if=lambda estimate: estimate == UNKNOWN
    )
    """The same without the judge whose squared errors are largest; unknown for fewer than three."""
    alpha_ordinal: Estimate = UNKNOWN
    """The same with the ordinal metric, which only knows the order of scores."""
    alpha_nominal: Estimate = UNKNOWN
    """The same with the nominal metric: scores are equal or not."""
    alpha_ordinal_by_criterion: dict[str, float | None] = Field(default_factory=dict)
    alpha_nominal_by_criterion: dict[str, float | None] = Field(default_factory=dict)


class ReferenceRates(Part):
    """Rates at which a judge is right, on criteria that the reference finds met or not met."""

    judge: str
    criterion: str | None
    """Id of the criterion; None for all of them pooled."""
    met: int
    """Number of scores of both where the reference says met."""
    not_met: int
    tpr: Estimate
    """P(judge says met | reference says met); from half of the weight up it says met."""
    tnr: Estimate
    """P(judge says not met | reference says not met)."""
    youden_j: Estimate
    """TPR + TNR − 1: 0 for a judge that does not look."""

    @property
    def of(self) -> str:
        """The criterion of the rates, "all" for all pooled."""
        return self.criterion or "all"


class ReliabilityReport(Report):
    """The report of a whole study."""

    documents: int
    tasks: int
    responses: int
    confidence: float
    resamples: int
    seed: int
    judges: tuple[JudgeReliability, ...]
    criteria: tuple[CriterionNoise, ...]
    """Noisiest first."""
    pairs: tuple[PairAgreement, ...]
    panel: PanelAgreement | None
    """None for one judge."""
    reference: str | None = None
    """The judge that the others are compared with."""
    rates: tuple[ReferenceRates, ...] = ()
    """Each other judge, all criteria pooled; then each criterion, lowest J first."""

    @property
    def marks(self) -> dict[str, str]:
        """Marks of the judges, for tables and figures where their names are too long."""
        return {
            reliability.judge: f"J{number}"
            for number, reliability in enumerate(self.judges, 1)
        }

    def tables(self) -> list[Table]:
        """Return the tables of the report, with a dash for unknown values.

        Several judges are numbered, as their names may be longer than a terminal is wide.
        """
        if self.panel is None:
            names = [judge.judge for judge in self.judges]
            return [_judges(self.judges, names), _criteria(self.criteria, {})]
        marks = self.marks
        columns = list(marks.values())
        rows = tuple((mark, name) for name, mark in marks.items())
        alone = [
            _judges(self.judges[k : k + _MOST_COLUMNS], columns[k : k + _MOST_COLUMNS])
            for k in range(0, len(columns), _MOST_COLUMNS)
        ]
        pairs = ([pair, marks[pair.a], marks[pair.b]] for pair in self.pairs)
        together = [
            _turned(WORDS["panel"], [[self.panel]], ("value",), further=("errors",)),
            _alphas(self.panel),
            Table.from_forms(WORDS["pairs"], pairs),
        ]
        if self.reference is not None:
            together.append(_rates(self.rates, marks, marks[self.reference]))
        legend = Table.from_texts("Judges", ("", "judge"), rows)
        return [legend, *alone, _criteria(self.criteria, marks), *together]

    @property
    def heading(self) -> str:
        """Heading of the report."""
        return "Judge reliability"

    def summary(self) -> str:
        """Return sentences on the noise and on the judges' agreement."""
        parts = [self._own_noise()]
        if self.panel is not None and self.panel.alpha.value is not None:
            judges = self.panel.judges
            alpha = self.panel.alpha.text()
            full = "1 is full agreement"
            parts.append(
                f"{judges} judges agree with Krippendorff’s α {alpha}; {full}."
            )
        pooled = [
            rate
            for rate in self.rates
            if rate.criterion is None and rate.youden_j.value
        ]
        if pooled:
            best = max(pooled, key=lambda rate: rate.youden_j.value or 0.0)
            figure = best.youden_j.text()
            parts.append(f"Nearest to {self.reference}: {best.judge}, with J {figure}.")
        return " ".join(parts)

    def _own_noise(self) -> str:
        known = {
            judge.judge: judge.flips
            for judge in self.judges
            if judge.flips.value is not None
        }
        if not known:
            return "What a second judgement would change is not known: too little was judged twice."
        if not any(flips.value for flips in known.values()):
            return f"A second judgement turns the sign of no advantage: {', '.join(known)}."
        shares = [f"{flips.text('.1%')} with {judge}" for judge, flips in known.items()]
        most = ""
        if len(shares) > _MOST_COLUMNS:
            most = f" and {len(shares) - _MOST_COLUMNS} more"
        first_shares = ", ".join(shares[:_MOST_COLUMNS])
        return f"Share of advantages whose sign a second judgement turns: {first_shares}{most}."

    def method(self) -> str:
        """Return a description of the data and of the intervals."""
        tasks = counted(self.tasks, "task")
        documents = counted(self.documents, "document")
        return (
            f"{self.responses:,} responses to {tasks} from {documents}. In brackets: "
            f"{self.confidence:.0%} BCa bootstrap intervals, {self.resamples} draws of "
            "documents (or tasks or responses, if fewer than eight), seed "
            f"{self.seed}; for TPR, TNR and J Wilson's and Newcombe's. A dash: the "
            "judgements cannot say."
        )

    def drawn(self) -> list[Bars]:
        """Return the share of advantages that a second judgement turns, by judge."""
        shares = (
            (
                judge.judge,
                (judge.flips.value, judge.flips.low, judge.flips.high),
                f"{judge.judgements:,} judgements",
            )
            for judge in self.judges
        )
        caption = "Share of advantages whose sign a second judgement of the same responses turns."
        return [Bars.of_shares("Noise of each judge", caption, shares, role="main")]


_MOST_CRITERIA = 15
_MOST_COLUMNS = 4
"""Most judges side by side in a terminal of 80 columns."""


WORDS = toml_beside(__file__, "words.toml")
"""Titles, rows and columns of the tables."""


def _judges(judges: Sequence[JudgeReliability], columns: Sequence[str]) -> Table:
    words = WORDS["judge"]
    values = [[judge, or_dash(judge.m_eff, ".1f")] for judge in judges]
    return _turned(words, values, columns, further=("errors", "cost"))


def _turned(
    words: Mapping[str, Any],
    values: Sequence[Sequence[object]],
    columns: Sequence[str],
    *,
    further: Sequence[str],
) -> Table:
    """Return a table with further rows, of which those are left out that nothing is known of."""
    table = Table.turned(words, values, columns)
    rows = list(table.texts)
    for kind in further:
        more = Table.turned({**words, "rows": words[kind]}, values, columns)
        rows += [row for row in more.texts if set(row[1:]) != {or_dash(None, "")}]
    return Table.from_texts(table.title, table.header, rows)


def _criteria(criteria: Sequence[CriterionNoise], marks: Mapping[str, str]) -> Table:
    noisiest = criteria[:_MOST_CRITERIA]
    words = WORDS["criteria"]
    if not marks:
        columns = {
            name: form for name, form in words["columns"].items() if name != "judge"
        }
        words = {**words, "columns": columns}
    of = ""
    if len(noisiest) < len(criteria):
        of = f" (the {len(noisiest)} noisiest)"
    return Table.from_forms(
        words, ([noise, marks.get(noise.judge)] for noise in noisiest), of=of
    )


def _alphas(panel: PanelAgreement) -> Table:
    known = {
        name: alpha
        for name, alpha in panel.alpha_by_criterion.items()
        if alpha is not None
    }
    ordinal = panel.alpha_ordinal_by_criterion
    nominal = panel.alpha_nominal_by_criterion
    lowest = sorted(known, key=lambda name: known[name])[:_MOST_CRITERIA]
    values = (
        [name, known[name], ordinal.get(name), nominal.get(name)] for name in lowest
    )
    of = ""
    if len(lowest) < len(known):
        of = f" (the {len(lowest)} lowest)"
    return Table.from_forms(WORDS["alphas"], values, of=of)


def _rates(
    rates: Sequence[ReferenceRates], marks: Mapping[str, str], reference: str
) -> Table:
    pooled = [rate for rate in rates if rate.criterion is None]
    single = [rate for rate in rates if rate.criterion is not None]
    chosen = [*pooled, *single[:_MOST_CRITERIA]]
    values = ([rate, marks[rate.judge]] for rate in chosen)
    of = f" (the {_MOST_CRITERIA} lowest J)" if len(single) > _MOST_CRITERIA else ""
    return Table.from_forms(WORDS["rates"], values, reference=reference, of=of)
