"""Answers that are already there, as a model of lm-eval: it scores, and generates nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from rubric_core import Finish

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rubric_eval.records import AnswerRow
    from rubric_eval.transfer.building import Built


class Response(str):
    """The text of an answer, which knows how it ended; empty where none came."""

    __slots__ = ("row",)

    row: AnswerRow

    def __new__(cls, row: AnswerRow) -> Self:
        """Take the text of a row."""
        self = super().__new__(cls, row.text or "")
        self.row = row
        return self

    @property
    def is_available(self) -> bool:
        """Whether an answer came at all."""
        return self.row.text is not None

    @property
    def is_truncated(self) -> bool | None:
        """Whether it was cut; None where none came."""
        return None if self.row.finish is None else self.row.finish is Finish.TRUNCATED


def scored_samples(built: Built, answers: Mapping[str, AnswerRow]) -> list[dict[str, Any]]:
    """Let lm-eval score the answers to one benchmark.

    Args:
        built: the benchmark.
        answers: by prompt.

    Returns:
        lm-eval's samples of the filter that counts, in the order of the items.
    """
    from rubric_eval.transfer.building import harness, quiet  # noqa: PLC0415

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


def _model(answers: Mapping[str, AnswerRow]) -> Any:  # noqa: ANN401
    from lm_eval.api.model import LM  # noqa: PLC0415

    class Recorded(LM):
        def generate_until(self, requests: list[Any]) -> list[str]:
            return [Response(answers[one.args[0]]) for one in requests]

        # lm-eval's class asks for these two; every benchmark here generates.
        def loglikelihood(self, requests: list[Any]) -> list[tuple[float, bool]]:
            raise NotImplementedError

        def loglikelihood_rolling(self, requests: list[Any]) -> list[float]:
            raise NotImplementedError

    return Recorded()
