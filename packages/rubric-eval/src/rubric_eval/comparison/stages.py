"""Policies side by side on the same held-out questions, with the controls beside them.

A policy can score by form alone, so its responses are judged against another document
(`blind_pairing`); and training by reward sharpens a policy, so it is compared with the policy it
started from at that one's best temperature, chosen on other questions than those of the test
(`best_temperature`).
"""

import random
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from typing import Final

from pydantic import BaseModel, ConfigDict

from rubric_core import Task
from rubric_core.files import toml_beside
from rubric_eval.comparison.results import result_sentence
from rubric_eval.errors import ComparisonError, EvalShapeError, SelectionLeakError
from rubric_eval.heldout.in_memory import Heldout
from rubric_eval.statistics import Interval, paired_interval
from rubric_eval.statistics.intervals import Difference
from rubric_judge.page.tables import TextTable, counted

_TABLES: Final = toml_beside(__file__, "stages.toml")


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
    """Responses a question of the stages."""
    stages: dict[str, ComparisonRow]
    controls: dict[str, ComparisonRow]
    differences: tuple[Difference, ...]
    claim: str
    """What these numbers allow to be said, and what they do not."""
    caution: str = ""
    """What the result must not be quoted without; it stands before it."""
    not_rivals: tuple[str, ...] = ()
    """Controls that the result is not held against: what is written from things that no policy
    sees, or the last stage itself, asked in another way. It names the strongest of the others."""

    @property
    def result(self) -> str:
        """The last stage against the best of the others, and the strongest control, in a sentence.

        An interval that does not lie above zero is told as what it is: no gain shown.
        """
        rivals = (
            row for name, row in self.controls.items() if name not in self.not_rivals
        )
        sentence = result_sentence(
            self.stages,
            {row.label: row for row in rivals},
            self._gain,
            on=counted(list(self.stages.values())[-1].n, "unseen question"),
            # "GRPO" of "GRPO: rewarded by the judge".
            shown=lambda name: self.stages[name].label.partition(":")[0],
        )
        return f"{self.caution} {sentence}" if self.caution else sentence

    def _gain(self, a: str, b: str) -> str:
        found = next(
            (
                difference
                for difference in self.differences
                if (difference.a, difference.b) == (a, b)
            ),
            None,
        )
        if found is None:
            return ", a difference that was not tested,"
        figures = f"{100 * found.mean:+.1f} points ({found.in_percent()})".replace(
            "-", "−"
        )
        return f": {figures}" + (
            "" if found.is_above(0.0) else ", which shows no gain,"
        )

    def difference(self, a: str, b: str) -> Difference:
        """The paired difference a − b.

        Raises:
            ComparisonError: it was not asked for.
        """
        for difference in self.differences:
            if (difference.a, difference.b) == (a, b):
                return difference
        raise ComparisonError(
            f"no difference {a!r} − {b!r} in this comparison; name it in `differences`"
        )

    def to_json(self) -> dict[str, object]:
        """Content of comparison.json, which the run's report shows.

        The stages are in `heldout` by name, with `controls` beside them.
        """
        content = self.model_dump(mode="json")
        heldout = {**content.pop("stages"), "controls": content.pop("controls")}
        return {**content, "result": self.result, "heldout": heldout}

    def markdown(self) -> str:
        """The result, two tables, rewards and paired differences, in per cent, and the claim."""
        level = f"{100 * self.confidence:g} % interval"
        rows = {**self.stages, **self.controls}
        marks = dict.fromkeys(self.stages, "**")
        told = {
            "rewards": (
                (marks.get(x, ""), row, row.in_percent()) for x, row in rows.items()
            ),
            "differences": (
                (
                    rows[difference.a].label,
                    rows[difference.b].label,
                    difference,
                    difference.in_percent(sign="+"),
                )
                for difference in self.differences
            ),
        }
        tables = (
            TextTable.of(_TABLES[name], of, level=level) for name, of in told.items()
        )
        shown = [table.markdown("---:") for table in tables if table.rows]
        return "\n\n".join(filter(None, [self.result, *shown, self.claim])) + "\n"


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
        controls: what the stages must be held against, on the same questions, or on some of them.
        labels: how to write a name; its own words where none is given.
        differences: pairs (a, b) to take a − b of; by default each stage minus the one before,
            then the last stage minus each control on all questions.
        claim: one sentence on what the numbers allow to be said.
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
    questions = set(next(iter(named.values())).task_ids)
    whole = [
        name for name, control in extra.items() if questions == set(control.task_ids)
    ]
    later = [(b, a) for a, b in pairwise(names)] + [
        (names[-1], control) for control in whole
    ]
    pairs = later if differences is None else list(differences)
    for name in (name for pair in pairs for name in pair):
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
    first = next(iter(named.values()))
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
        asked = set(first.task_ids)
        told = set(heldout.task_ids)
        _refuse_questions(
            first_name, name, asked ^ told if name in named else told - asked
        )
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
    a, b = (everything[name] for name in pair)
    by_id = dict(zip(b.task_ids, b.rewards_N, strict=True))
    interval = paired_interval(
        a.rewards_N,
        [by_id[task_id] for task_id in a.task_ids],
        clusters_N=a.documents or None,
        confidence=confidence,
    )
    return Difference(**interval.model_dump(), a=pair[0], b=pair[1])


def blind_pairing(tasks: Sequence[Task], *, seed: int = 0) -> tuple[int, ...]:
    """Give every task another one, from another document, to be judged against.

    A permutation π with document(π(i)) ≠ document(i) for all i. Documents are put in a random
    order, the largest first, and the tasks shifted along it by the size of the largest.

    Args:
        tasks: N tasks.
        seed: of the order; the same tasks give the same pairing.

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
    order = [
        index for group in sorted(groups, key=len, reverse=True) for index in group
    ]
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
        The temperature; the higher one of two that are equal.

    Raises:
        SelectionLeakError: a test question is among those that the choice is made on.
        EvalShapeError: no temperature to choose from.
    """
    if not validation:
        raise EvalShapeError(
            "no temperature to choose from; evaluate at least one on validation"
        )
    seen = {task_id for heldout in validation.values() for task_id in heldout.task_ids}
    shared = tuple(sorted(seen & set(test_task_ids)))
    if shared:
        raise SelectionLeakError(
            f"{len(shared)} test questions, first {shared[0]!r}, are among those that the "
            "temperature is chosen on; choose it on validation questions alone",
            task_ids=shared,
        )
    return max(
        validation, key=lambda temperature: (validation[temperature].mean, temperature)
    )
