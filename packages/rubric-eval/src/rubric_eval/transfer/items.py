"""Answers as scored items: the rows of a benchmark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from rubric_eval.lm_tasks.scoring import Response, stated
from rubric_eval.lm_tasks.sources import Item
from rubric_eval.records.files import AnswerRow, ItemRow
from rubric_eval.records.inputs import text_sha256
from rubric_eval.transfer.building import Built
from rubric_eval.transfer.suites import Benchmark


def scored_samples(built: Built, answers: Mapping[str, AnswerRow]) -> list[dict[str, Any]]:
    """Let lm-eval score the answers to one benchmark.

    Args:
        built: the benchmark.
        answers: by prompt.

    Returns:
        lm-eval's samples of the filter that counts, in the order of the items.
    """
    from rubric_eval.transfer.building import harness, quiet

    with quiet():
        results = harness("lm_eval").evaluate(
            lm=_model(answers),
            task_dict={"tasks": {built.benchmark.task: built.task}, "groups": {}},
            limit=built.limit,
            bootstrap_iters=0,
        )
    samples = results["samples"][built.benchmark.task]
    chosen = [one for one in samples if one["filter"] == built.benchmark.filter]
    return sorted(chosen, key=lambda one: one["doc_id"])


def _model(answers: Mapping[str, AnswerRow]) -> Any:
    from lm_eval.api.model import LM

    class Recorded(LM):
        def generate_until(self, requests: list[Any]) -> list[str]:
            return [Response(answers[one.args[0]]) for one in requests]

        # lm-eval's class asks for these two; every benchmark here generates.
        def loglikelihood(self, requests: list[Any]) -> list[tuple[float, bool]]:
            raise NotImplementedError

        def loglikelihood_rolling(self, requests: list[Any]) -> list[float]:
            raise NotImplementedError

    return Recorded()


_NOTHING_FOUND: Final = "[invalid]"
"""What lm-eval's filters write where they find no answer."""
_NO_FILTER: Final = "none"
"""The whole response is scored, by a rule of the task's own."""


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
        _row(built.benchmark, answers[item.item_id], sample, item=item, prompt=prompt)
        for item, prompt, sample in zip(built.items, built.prompts, samples, strict=True)
    ]


def _row(
    benchmark: Benchmark, answer: AnswerRow, sample: Mapping[str, Any], *, item: Item, prompt: str
) -> ItemRow:
    is_available = answer.text is not None
    response = Response(answer)
    return ItemRow(
        item_id=item.item_id,
        prompt_sha256=text_sha256(prompt),
        correct=bool(sample["exact_match"]) if is_available else None,
        is_answered=is_available and _is_answered(sample),
        is_truncated=response.is_truncated,
        tokens=answer.tokens,
        group=item.group,
        question=item.shown(),
        target=item.target,
        stated=_stated(benchmark, response, sample, item) if is_available else None,
        response=str(response),
        reason=answer.reason,
    )


def _stated(
    benchmark: Benchmark, response: str, sample: Mapping[str, Any], item: Item
) -> str | None:
    """Return the answer that was scored; None where there is none, or nobody says which it is."""
    if benchmark.stock_yaml is None:
        return stated(benchmark.data, response, item.choices)
    return _filtered(sample) if benchmark.filter != _NO_FILTER else None


def _is_answered(sample: Mapping[str, Any]) -> bool:
    """Ask our own scoring, or whether lm-eval's filter found something."""
    if "no_answer" in sample:
        return not sample["no_answer"]
    return _filtered(sample) is not None


def _filtered(sample: Mapping[str, Any]) -> str | None:
    """What lm-eval's filter found, if anything."""
    found = str(sample["filtered_resps"][0]).strip()
    return found if found and found != _NOTHING_FOUND else None
