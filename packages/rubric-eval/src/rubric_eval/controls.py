"""Controls that say what a gain may be claimed to be.

A policy can score by form alone, so its responses are judged against another document
(`blind_pairing`); and a policy trained by reward is sharper than the one it started from, so it is
set against that one at its best temperature, chosen away from the test questions
(`best_temperature`).
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

from rubric_core import Task
from rubric_eval.errors import EvalShapeError, SelectionLeakError
from rubric_eval.heldout.judged import Heldout


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
    order = [index for group in sorted(groups, key=len, reverse=True) for index in group]
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
        raise EvalShapeError("no temperature to choose from; evaluate at least one on validation")
    seen = {task_id for heldout in validation.values() for task_id in heldout.task_ids}
    shared = tuple(sorted(seen & set(test_task_ids)))
    if shared:
        raise SelectionLeakError(
            f"{len(shared)} test questions, first {shared[0]!r}, are among those that the "
            "temperature is chosen on; choose it on validation questions alone",
            task_ids=shared,
        )
    return max(validation, key=lambda temperature: (validation[temperature].mean, temperature))
