"""Scores of a file of responses by criterion, as a table for a terminal."""

from collections import defaultdict
from collections.abc import Sequence

from rubric_core import Pooling
from rubric_core.reward.projection import weighted_scores_z
from rubric_judge.quality.responses import JudgedResponse
from rubric_judge.ui.page.tables import Table, counted

_MOST_ROWS = 20


def criteria_table(judged: Sequence[JudgedResponse]) -> Table:
    """Return a row for each criterion of an id that repeats, or each kind; the lowest mean first.

    Args:
        judged: judgements; those that are scored count, and criteria with weight.
    """
    views = {row.view.task_id: row.view for row in judged}
    pooling = Pooling.of(views.values())
    z: defaultdict[str, list[float]] = defaultdict(list)
    for row in judged:
        scores = weighted_scores_z(row.result, row.view.rubric)
        for criterion in row.view.rubric:
            if criterion.id in scores:
                z[pooling.pool(criterion).name].append(scores[criterion.id])
    ordered = sorted(z.items(), key=lambda item: (sum(item[1]) / len(item[1]), item[0]))
    rows: list[tuple[str, ...]] = []
    for name, z_of_name in ordered[:_MOST_ROWS]:
        count = len(z_of_name)
        shares = (
            sum(z_of_name) / count,
            sum(score == 0 for score in z_of_name) / count,
            sum(score >= 1 for score in z_of_name) / count,
        )
        rows.append((name, f"{count:,}", *(f"{100 * share:.1f} %" for share in shares)))
    title = "by criterion, the lowest first"
    if left := len(ordered) - len(rows):
        title += (
            f"; {counted(left, 'more criterion', 'more criteria')}: rubric-judge view"
        )
    header = ("criterion", "scores", "mean z", "none", "full")
    return Table.from_texts(title, header, rows)
