"""Answers as scored items: the rows of a benchmark."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final

from rubric_core import Finish
from rubric_eval.records import ItemRow
from rubric_eval.transfer.recorded import scored_samples

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rubric_eval.records import AnswerRow
    from rubric_eval.transfer.building import Built

_NOTHING_FOUND: Final = "[invalid]"
"""What lm-eval's filters write where they find no answer."""


def scored_items(built: Built, answers: Mapping[str, AnswerRow]) -> list[ItemRow]:
    """Score the answers to a benchmark.

    Args:
        built: the benchmark.
        answers: by item.

    Returns:
        A row for each item, in their order; one without an answer is neither right nor wrong.
    """
    by_prompt = {
        prompt: answers[item_id] for item_id, prompt in zip(built.ids, built.prompts, strict=True)
    }
    samples = scored_samples(built, by_prompt)
    return [
        _row(answers[item_id], sample, item_id=item_id, prompt=prompt, group=group)
        for item_id, prompt, group, sample in zip(
            built.ids, built.prompts, built.groups, samples, strict=True
        )
    ]


def _row(
    answer: AnswerRow, sample: Mapping[str, Any], *, item_id: str, prompt: str, group: str
) -> ItemRow:
    is_available = answer.text is not None
    return ItemRow(
        item_id=item_id,
        prompt_sha256=hashlib.sha256(prompt.encode()).hexdigest(),
        correct=bool(sample["exact_match"]) if is_available else None,
        is_answered=is_available and _is_answered(sample),
        is_truncated=None if answer.finish is None else answer.finish is Finish.TRUNCATED,
        tokens=answer.tokens,
        group=group,
        response=answer.text or "",
        reason=answer.reason,
    )


def _is_answered(sample: Mapping[str, Any]) -> bool:
    """Ask our own scoring, or whether lm-eval's filter found something."""
    if "no_answer" in sample:
        return not sample["no_answer"]
    found = str(sample["filtered_resps"][0]).strip()
    return bool(found) and found != _NOTHING_FOUND
