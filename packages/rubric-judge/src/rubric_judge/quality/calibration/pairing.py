"""A judge's judgements and people's labels of the same responses, as arrays.

Axes as in `rubric_judge.quality.reliability.ratings`; of people, **J** counts the raters.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np

from rubric_core import ConfigError, Pooling
from rubric_core.arrays import BoolArray, FloatArray
from rubric_judge.quality.labels.rows import Label, LabelSource, Seen, read_labels
from rubric_judge.quality.reliability.agreement import single_judgements
from rubric_judge.quality.reliability.rates import MET
from rubric_judge.quality.reliability.ratings import Ratings

Combining = Literal["mean", "majority"]
"""Ways to combine the scores of several raters."""


@dataclass(frozen=True)
class Paired:
    """Scores of the same responses by a judge and by people; nan where there is none."""

    ratings: Ratings
    """Ratings of one judge."""
    raters: tuple[str, ...]
    people_JNM: FloatArray
    """z of each rater."""
    label_NM: FloatArray
    """z of the raters, combined."""
    unjudged: int
    """Labels of responses that the judge has no judgement of."""
    weights_N: FloatArray | None = None
    """1 / inclusion of each labelled response, over the greatest; None where all are equal."""
    unsure: Mapping[tuple[int, int], int] = field(
        default_factory=dict[tuple[int, int], int]
    )
    """Number of labels, by (n, m), that say that the rater cannot tell."""
    unsure_unjudged: int = 0
    """The same number for responses without a judgement."""

    @property
    def judge_NRM(self) -> FloatArray:
        """The judge's z."""
        return self.ratings.z_JNRM[0]

    @cached_property
    def first_NM(self) -> FloatArray:
        """Z of the first replicate that is scored, as training would take it."""
        return single_judgements(self.ratings.z_JNRM, self.ratings.rewards_JNR).z_JNM[0]

    @cached_property
    def divided_NM(self) -> BoolArray:
        """Ties: as many raters call a criterion met as do not, so that people have not decided."""
        counts_NM = (~np.isnan(self.people_JNM)).sum(axis=0)
        met_NM = (self.people_JNM >= MET).sum(axis=0)
        return (counts_NM > 0) & (2 * met_NM == counts_NM)

    @cached_property
    def decided_NM(self) -> FloatArray:
        """The label where people have decided whether it is met; rates are counted over these."""
        return np.where(self.divided_NM, np.nan, self.label_NM)

    @cached_property
    def labelled_NM(self) -> BoolArray:
        """Cells with a label and a score of the judge."""
        return ~np.isnan(self.label_NM) & ~np.isnan(self.first_NM)

    @cached_property
    def pooling(self) -> Pooling:
        """Pools of criteria that are measured together, over the labelled tasks."""
        has_label_N = (~np.isnan(self.label_NM)).any(axis=1)
        labelled = np.flatnonzero(has_label_N).tolist()
        return Pooling.of(self.ratings.tasks_N[n] for n in labelled)

    @property
    def complete_N(self) -> BoolArray:
        """Whether every criterion with weight is labelled and judged."""
        return (self.labelled_NM | (self.ratings.alpha_NM == 0)).all(axis=1)


def read_all_labels(paths: Sequence[Path], source: LabelSource) -> list[Label]:
    """Read files of labels as one.

    Raises:
        ConfigError: they hold no label, or none with a score.
        RubricFileError: a line does not fit, or a rater has labelled the same in another file; see
            `read_labels`.
        OSError: a file cannot be read.
    """
    seen: Seen = {}
    labels = [label for path in paths for label in read_labels(path, source, seen)]
    named = ", ".join(map(str, paths))
    if not labels:
        remedy = "label some responses first, with `rubric-judge label`"
        raise ConfigError(
            f"--labels {named}: holds no label: {remedy}", location="labels"
        )
    if all(label.score is None for label in labels):
        problem = f"none of the {len(labels)} labels has a score: nothing to calibrate against"
        raise ConfigError(f"--labels {named}: {problem}", location="labels")
    return labels


def pair(
    labels: Iterable[Label], ratings: Ratings, *, combining: Combining = "mean"
) -> Paired:
    """Put labels beside judgements.

    Args:
        labels: labels by any raters, each for a criterion of a task of the ratings.
        ratings: ratings of one judge.
        combining: "mean" takes the mean of the raters' z; "majority" what most of them call met,
            as 0 or 1, and no label where they are divided evenly, which counts for neither rate.

    Raises:
        ConfigError: the judgements are of several judges; or some responses have an inclusion
            probability and others have none, or two.
    """
    if len(ratings.judges) > 1:
        named = " and ".join(map(repr, ratings.judges[:2]))
        problem = f"the judgements are of {len(ratings.judges)} judges, {named}"
        raise ConfigError(
            f"{problem}: a calibration is of one judge", location="judgements"
        )
    labels = list(labels)
    raters = tuple(dict.fromkeys(label.rater for label in labels))
    rows = {line: n for n, line in enumerate(ratings.lines_N)}
    people_JNM = np.full((len(raters), *ratings.alpha_NM.shape), np.nan)
    unjudged: list[Label] = []
    unsure: Counter[tuple[int, int]] = Counter()
    for label in labels:
        n = rows.get(label.line)
        if n is None:
            unjudged.append(label)
            continue
        rubric = ratings.tasks_N[n].rubric
        place = n, rubric.ids.index(label.criterion)
        weight = rubric[label.criterion].weight
        if label.score is None:
            unsure[place] += 1
        else:
            scored = label.score / weight if weight else np.nan
            people_JNM[raters.index(label.rater), *place] = scored
    label_NM = _combined(people_JNM, combining)
    weights_N = _weights(labels, ratings)
    unsure_unjudged = sum(label.score is None for label in unjudged)
    return Paired(
        ratings=ratings,
        raters=raters,
        people_JNM=people_JNM,
        label_NM=label_NM,
        unjudged=len(unjudged),
        weights_N=weights_N,
        unsure=unsure,
        unsure_unjudged=unsure_unjudged,
    )


def _weights(labels: Sequence[Label], ratings: Ratings) -> FloatArray | None:
    """Return the weight of each response; unlabelled ones are in no mean, and have weight 1."""
    known: dict[int, float] = {}
    for label in labels:
        if label.inclusion is None:
            continue
        if known.setdefault(label.line, label.inclusion) != label.inclusion:
            raise ConfigError(
                f"labels: response {label.line} has two inclusion probabilities, "
                f"{known[label.line]:g} and {label.inclusion:g}: its labels are of two draws: "
                "calibrate on those of one",
                location="labels",
            )
    unknown = sorted({label.line for label in labels} - set(known))
    if known and unknown:
        raise ConfigError(
            f"labels: {len(unknown)} labelled responses, of which line {unknown[0]} is the "
            f"first, have no inclusion probability, and {len(known)} have one: how much each "
            "stands for is unknown; calibrate on either alone, or take `inclusion` out of "
            "all labels to let each count as 1",
            location="labels",
        )
    if len(set(known.values())) < 2:  # noqa: PLR2004  # all weigh the same
        return None
    least = min(known.values())
    return np.array([least / known.get(line, least) for line in ratings.lines_N])


def _combined(people_JNM: FloatArray, combining: Combining) -> FloatArray:
    counts_NM = (~np.isnan(people_JNM)).sum(axis=0)
    values_JNM = people_JNM
    if combining == "majority":
        values_JNM = np.where(people_JNM >= MET, 1.0, 0.0)
    sums_NM = np.where(np.isnan(people_JNM), 0.0, values_JNM).sum(axis=0)
    mean_NM = np.where(counts_NM > 0, sums_NM / np.maximum(counts_NM, 1), np.nan)
    if combining == "mean":
        return mean_NM
    # Adding 0 times the mean keeps nan where there is no label.
    majority_NM = np.where(mean_NM > MET, 1.0, 0.0) + 0 * mean_NM
    return np.where(mean_NM == MET, np.nan, majority_NM)
