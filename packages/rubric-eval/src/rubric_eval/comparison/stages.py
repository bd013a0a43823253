"""Policies side by side on the same held-out questions, with the controls beside them.

A policy can score by form alone, so its responses are judged against another document
(`blind_pairing`); and training by reward sharpens a policy, so it is compared with the policy it
started from at that one's best temperature, chosen on other questions than those of the test
(`best_temperature`).
"""

import random
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from itertools import chain, pairwise

from pydantic import BaseModel, ConfigDict

from rubric_core import Task
from rubric_core.files import toml_beside
from rubric_eval.comparison.results import result_sentence
from rubric_eval.errors import ComparisonError, EvalShapeError, SelectionLeakError
from rubric_eval.heldout.in_memory import Heldout
from rubric_eval.statistics import Interval, paired_interval
from rubric_eval.statistics.intervals import Difference
from rubric_judge.ui.page.tables import Table, counted, plain_markdown

_TABLES = toml_beside(__file__, "stages.toml")


class ComparisonRow(Interval):
    """Held-out reward of one policy or control."""

    label: str
    zero_frac: float
    criteria: dict[str, float]


class Comparison(BaseModel):
    """Stages, controls and paired differences; ids and numbers alone."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    judge: str
    confidence: float
    samples: int
    """Number of the stages' responses to each question."""
    stages: dict[str, ComparisonRow]
    controls: dict[str, ComparisonRow]
    differences: tuple[Difference, ...]
    claim: str
    """Statement of the conclusions that these numbers allow, and of those that they do not."""
    caution: str = ""
    """Text that the result must not be quoted without; it stands before the result."""
    not_rivals: tuple[str, ...] = ()
    """Controls that the result is not compared with: those written with knowledge that no policy
    has, and the last stage itself, asked in another way. It names the strongest of the others."""

    @property
    def result(self) -> str:
        """The last stage against the best of the others, and the strongest control, in a sentence.

        An interval that does not lie above zero is reported as no gain.
        """
        rivals = {
            row.label: row
            for name, row in self.controls.items()
            if name not in self.not_rivals
        }
        last = list(self.stages.values())[-1]
        sentence = result_sentence(
            self.stages,
            rivals,
            self._gain,
            on=counted(last.n, "unseen question"),
            shown=self._short_label,
        )
        return f"{self.caution} {sentence}" if self.caution else sentence

    def _short_label(self, name: str) -> str:
        """Return "GRPO" for a stage with the label "GRPO: rewarded by the judge"."""
        return self.stages[name].label.partition(":")[0]

    def _gain(self, a: str, b: str) -> str:
        difference = self._tested_difference(a, b)
        if difference is None:
            return ", a difference that was not tested,"
        points = f"{100 * difference.mean:+.1f} points"
        gain = f": {points} ({difference.in_percent()})".replace("-", "−")
        if not difference.is_above(0.0):
            gain += ", which shows no gain,"
        return gain

    def _tested_difference(self, a: str, b: str) -> Difference | None:
        for difference in self.differences:
            if (difference.a, difference.b) == (a, b):
                return difference
        return None

    def difference(self, a: str, b: str) -> Difference:
        """Return the paired difference a − b.

        Raises:
            ComparisonError: it was not asked for.
        """
        difference = self._tested_difference(a, b)
        if difference is not None:
            return difference
        raise ComparisonError(
            f"no difference {a!r} − {b!r} in this comparison; name it in `differences`"
        )

    def to_json(self) -> dict[str, object]:
        """Return the content of comparison.json, which the run's report shows.

        The stages are in `heldout` by name, with `controls` beside them.
        """
        content = self.model_dump(mode="json")
        heldout = {**content.pop("stages"), "controls": content.pop("controls")}
        return {**content, "result": self.result, "heldout": heldout}

    def markdown(self) -> str:
        """Return the result, tables of rewards and differences in per cent, and the claim."""
        level = f"{100 * self.confidence:g} % interval"
        rows = {**self.stages, **self.controls}
        rewards = [
            ("**" if name in self.stages else "", row, row.in_percent())
            for name, row in rows.items()
        ]
        differences: list[tuple[object, ...]] = []
        for difference in self.differences:
            a = rows[difference.a].label
            b = rows[difference.b].label
            limits = difference.in_percent(sign="+")
            differences.append((a, b, difference, limits))
        parts = [self.result]
        for name, cells in (("rewards", rewards), ("differences", differences)):
            table = Table.from_forms(_TABLES[name], cells, level=level)
            if table.rows:
                parts.append(plain_markdown(table, "---:"))
        parts.append(self.claim)
        return "\n\n".join(filter(None, parts)) + "\n"


def compare(
    named: Mapping[str, Heldout],
    *,
    controls: Mapping[str, Heldout] | None = None,
    labels: Mapping[str, str] | None = None,
    differences: Sequence[tuple[str, str]] | None = None,
    claim: str = "",
    confidence: float = 0.95,
) -> Comparison:
    """Set policies and controls side by side on the same questions.

    Args:
        named: the stages in the order in which they were trained, such as base, sft, grpo.
        controls: controls to compare the stages with, on the same questions, or on some of them.
        labels: labels by name; by default the words of the name.
        differences: pairs (a, b) to take a − b of; by default each stage minus the one before,
            then the last stage minus each control on all questions.
        claim: one sentence on the conclusions that the numbers allow.
        confidence: nominal coverage of all intervals, in (0, 1).

    Returns:
        Intervals of all means and of the paired differences; questions are matched by id.

    Raises:
        ComparisonError: no stage, a name used twice or unknown, or different questions or judges.
    """
    extra = dict(controls or {})
    everything = {**named, **extra}
    _check_comparable(named, extra)
    names = list(named)
    first = named[names[0]]
    questions = set(first.task_ids)
    if differences is None:
        pairs = [(b, a) for a, b in pairwise(names)]
        for name, control in extra.items():
            if questions == set(control.task_ids):
                pairs.append((names[-1], name))
    else:
        pairs = list(differences)
    for name in chain.from_iterable(pairs):
        if name not in everything:
            raise ComparisonError(
                f"no evaluation named {name!r}; there are {list(everything)!r}"
            )
        _refuse_questions(names[0], name, questions - set(everything[name].task_ids))
    rows = {
        name: ComparisonRow(
            **heldout.interval(confidence=confidence).model_dump(),
            label=(labels or {}).get(name, name.replace("_", " ")),
            zero_frac=heldout.zero_frac,
            criteria=heldout.criteria,
        )
        for name, heldout in everything.items()
    }
    return Comparison(
        judge=first.judge,
        confidence=confidence,
        samples=first.samples,
        stages={name: rows[name] for name in named},
        controls={name: rows[name] for name in extra},
        differences=tuple(
            _difference(everything, pair, confidence=confidence) for pair in pairs
        ),
        claim=claim,
    )


def _check_comparable(
    named: Mapping[str, Heldout], controls: Mapping[str, Heldout]
) -> None:
    if not named:
        raise ComparisonError("no stage to compare; name at least one evaluation")
    twice = sorted(named.keys() & controls.keys())
    if twice or "controls" in named:
        names = twice or ["controls"]
        raise ComparisonError(f"names {names!r} stand for two things; rename the stage")
    first_name, first = next(iter(named.items()))
    for name, heldout in {**named, **controls}.items():
        first_ids = set(first.task_ids)
        ids = set(heldout.task_ids)
        different = first_ids ^ ids if name in named else ids - first_ids
        _refuse_questions(first_name, name, different)
        if heldout.judge != first.judge:
            raise ComparisonError(
                f"{first_name!r} was judged by {first.judge!r} and {name!r} by "
                f"{heldout.judge!r}; use one judge for both"
            )


def _refuse_questions(first: str, name: str, missing: Collection[str]) -> None:
    if missing:
        raise ComparisonError(
            f"{first!r} and {name!r} differ in {len(missing)} questions; evaluate both on the "
            "same ones"
        )


def _difference(
    everything: Mapping[str, Heldout], pair: tuple[str, str], *, confidence: float
) -> Difference:
    a_name, b_name = pair
    a = everything[a_name]
    b = everything[b_name]
    by_id = dict(zip(b.task_ids, b.rewards_N, strict=True))
    interval = paired_interval(
        a.rewards_N,
        [by_id[task_id] for task_id in a.task_ids],
        clusters_N=a.documents or None,
        confidence=confidence,
    )
    return Difference(**interval.model_dump(), a=a_name, b=b_name)


def blind_pairing(tasks: Sequence[Task], *, seed: int = 0) -> tuple[int, ...]:
    """Return for every task another one, from another document, to judge its response against.

    A permutation π with document(π(i)) ≠ document(i) for all i. Documents are put in a random
    order, the largest first, and the tasks shifted along it by the size of the largest.

    Args:
        tasks: N tasks.
        seed: seed of the order; the same tasks give the same pairing.

    Returns:
        For each response i the index of the task to judge it against; every task is used once,
        so the mean over tasks stays comparable with the one on their own responses.

    Raises:
        EvalShapeError: one document has more than half of the tasks, so there is no such pairing.
    """
    members: defaultdict[str, list[int]] = defaultdict(list)
    for index, task in enumerate(tasks):
        members[task.doc_hash].append(index)
    largest = max((len(group) for group in members.values()), default=0)
    if 2 * largest > len(tasks):
        raise EvalShapeError(
            f"one document has {largest} of {len(tasks)} tasks; pairing each with another "
            "document needs at most half from one, so add documents"
        )
    rng = random.Random(seed)
    groups = [rng.sample(members[name], len(members[name])) for name in sorted(members)]
    rng.shuffle(groups)
    groups.sort(key=len, reverse=True)
    order = list(chain.from_iterable(groups))
    partner = [0] * len(tasks)
    for position, index in enumerate(order):
        partner[index] = order[(position + largest) % len(order)]
    return tuple(partner)


def best_temperature(
    validation: Mapping[float, Heldout], *, test_task_ids: Collection[str]
) -> float:
    """Choose the sampling temperature with the highest mean reward on validation questions.

    Args:
        validation: evaluation at each temperature, on validation questions.
        test_task_ids: questions that the choice will be reported on.

    Returns:
        The temperature; the higher one of two with the same mean.

    Raises:
        SelectionLeakError: a test question is among those that the choice is made on.
        EvalShapeError: no temperature to choose from.
    """
    if not validation:
        raise EvalShapeError(
            "no temperature to choose from; evaluate at least one on validation"
        )
    used = {task_id for heldout in validation.values() for task_id in heldout.task_ids}
    shared = tuple(sorted(used & set(test_task_ids)))
    if shared:
        raise SelectionLeakError(
            f"{len(shared)} test questions, first {shared[0]!r}, are among those that the "
            "temperature is chosen on; choose it on validation questions alone",
            task_ids=shared,
        )
    return max(
        validation, key=lambda temperature: (validation[temperature].mean, temperature)
    )
