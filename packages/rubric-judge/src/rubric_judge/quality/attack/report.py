"""The report of an attack, as `attack.json` holds it (ids and numbers, no text), and its figure."""

from pathlib import Path

from matplotlib.ticker import PercentFormatter

from rubric_core.files import toml_beside
from rubric_judge.quality.attack.plan import REFERENCE_ABOVE_WEAK
from rubric_judge.ui.page import charts, pictures
from rubric_judge.ui.page.tables import Part, Report, Table, counted


class WorstCase(Part):
    """An attack that was credited above its bound."""

    id: str
    """`family/name@task_id`."""
    reward: float
    bound: float


class FamilyCredit(Part):
    """Credit of a family of attacks."""

    family: str
    cases: int
    scored: int
    """Cases with scores and a bound; the rates are over these."""
    over_credited: int
    rate: float | None
    """Share of the scored cases credited more than ε above their bound."""
    low: float | None
    high: float | None
    """Wilson interval of the rate."""
    mean_over_credit: float | None
    """Mean over the scored cases of max(0, reward − bound)."""
    invalid: int
    """Cases that the judge answered out of contract: reward 0, the attacker gained nothing."""
    unavailable: int
    """Cases without an answer; a masked sample, neither a gain nor a loss."""
    unbounded: int
    """Cases on a base that the judge itself gave no scores: nothing to compare with."""
    worst: tuple[WorstCase, ...]
    """Most over-credited first."""


class ControlCredit(Part):
    """Credit of honest texts; a low rate is no merit in a judge that cannot tell them apart."""

    name: str
    deserves: str
    responses: int
    scored: int
    mean_reward: float | None


class AttackReport(Report):
    """The report of a whole run."""

    judge: str
    tasks: int
    cases: int
    epsilon: float
    confidence: float
    families: tuple[FamilyCredit, ...]
    """Highest rate first."""
    controls: tuple[ControlCredit, ...]
    separated: int
    """Tasks whose reference answer was given more than the weak answer, by more than ε."""
    separable: int
    """Tasks with a reference answer, both of which were scored."""

    def tables(self) -> list[Table]:
        """Return the rates by family, the controls, and the worst cases."""
        return [_families(self), _controls(self), _worst(self)]

    @property
    def heading(self) -> str:
        """Heading of the report."""
        return f"Attacks on {self.judge}"

    def summary(self) -> str:
        """Return how often the judge was fooled, by which family, and if it knows a good answer."""
        scored = sum(family.scored for family in self.families)
        if not scored:
            return f"Nothing can be said: none of {self.cases:,} attacks was judged."
        over = sum(family.over_credited for family in self.families)
        text = (
            f"{self.judge} gave {over:,} of {scored:,} attacks more than they deserve"
        )
        text += f" ({100 * over / scored:.1f} %)"
        worst = self.families[0]
        if worst.rate:
            text += f", most often as {worst.family.replace('_', ' ')} ({100 * worst.rate:.1f} %)"
        if self.separable:
            tasks = f"{self.separated} of {counted(self.separable, 'task')}"
            text += f". It put the reference answer above a weak one in {tasks}"
        return f"{text}."

    def method(self) -> str:
        """Return a description of the counts and of the intervals."""
        return (
            f"{self.cases:,} cases on {counted(self.tasks, 'task')}. Over-credited: cases "
            "that were given more than they deserve, of those with scores and a bound; "
            f"the intervals are Wilson's ({self.confidence:.0%}). Excess: mean of what was "
            "given above the bound. Invalid judgements (reward 0) and unavailable ones "
            "(no reward) are counted apart."
        )

    def drawn(self) -> list[charts.Bars]:
        """Return the rate of each family."""
        shares = (
            (
                family.family,
                (family.rate, family.low, family.high),
                f"{family.over_credited} of {family.scored}",
            )
            for family in self.families
        )
        caption = f"Share of attacks credited above their bound by more than {self.epsilon:g}."
        bars = charts.Bars.of_shares(
            "Over-credit by family", caption, shares, role="other"
        )
        return [bars]


_MOST_WORST = 10
_WORDS = toml_beside(__file__, "words.toml")
"""Titles, columns and texts of the tables."""


def _families(report: AttackReport) -> Table:
    rows = [
        (family, _interval(family), _uncounted(family)) for family in report.families
    ]
    table = Table.from_forms(
        _WORDS["families"],
        rows,
        judge=report.judge,
        epsilon=f"{report.epsilon:g}",
    )
    if any(uncounted for *_, uncounted in rows):
        return table
    shorter = (row[:-1] for row in table.texts)
    return Table.from_texts(table.title, table.header[:-1], shorter)


def _interval(credit: FamilyCredit) -> str:
    if credit.low is None or credit.high is None:
        return "–"
    return f"{credit.low:.0%}–{credit.high:.0%}"


def _uncounted(credit: FamilyCredit) -> str:
    counts = {
        "invalid": credit.invalid,
        "unavailable": credit.unavailable,
        "no bound": credit.unbounded,
    }
    return ", ".join(f"{count} {name}" for name, count in counts.items() if count)


def _controls(report: AttackReport) -> Table:
    table = Table.from_forms(
        _WORDS["controls"], ([control] for control in report.controls)
    )
    if not report.separable:
        return table
    told_apart = f"{report.separated} of {report.separable} tasks"
    row = (REFERENCE_ABOVE_WEAK, "every task", told_apart, "")
    return Table.from_texts(table.title, table.header, (*table.texts, row))


def _worst(report: AttackReport) -> Table:
    cases = [case for family in report.families for case in family.worst]
    worst = sorted(cases, key=lambda case: case.bound - case.reward)[:_MOST_WORST]
    return Table.from_forms(_WORDS["worst"], ([case] for case in worst))


_MOST_FAMILIES = 40


def draw_figures(report: AttackReport, folder: Path) -> list[Path]:
    """Draw the over-credit rates with their intervals.

    Args:
        report: the report.
        folder: where to write; it exists.

    Returns:
        The PNG and SVG files; none where nothing was scored.
    """
    scored = [family for family in report.families if family.rate is not None]
    shown = scored[:_MOST_FAMILIES]
    if not shown:
        return []
    figure, axes = pictures.new_rows(
        [family.family for family in shown], height=1.3, each=0.12
    )
    bounds = [(family.rate or 0.0, family.low, family.high) for family in shown]
    pictures.draw_intervals(
        axes,
        range(len(shown)),
        bounds,
        colour=pictures.COLOURS[0],
    )
    for place, credit in enumerate(shown):
        axes.text(
            1.02,
            place,
            f"{credit.over_credited} of {credit.scored}",
            va="center",
            fontsize=8.5,
            color=pictures.MUTED,
        )
    axes.set_xlim(0, 1)
    axes.xaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    axes.set_xlabel(
        f"cases credited more than they deserve, with {report.confidence:.0%} intervals"
    )
    title = f"Attacks on {report.judge}"
    families = len(report.families)
    if families > len(shown):
        title += f", the {len(shown)} worst of {families} families"
    pictures.draw_title(axes, title)
    return pictures.save_figure(figure, folder, "over_credit")
