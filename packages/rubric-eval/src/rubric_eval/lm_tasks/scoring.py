"""Functions that the YAML files name as `process_results`, which score a response.

exact_match  1 if the answer is right
no_answer    1 if the response states none
truncated    1 if the response was cut; only for a model that says so
"""

from collections.abc import Mapping, Sequence
from typing import Any, Self

from rubric_core import Finish
from rubric_eval.lm_tasks.answers import expressions
from rubric_eval.lm_tasks.answers.stated import stated_letter
from rubric_eval.records.files import AnswerRow


class Response(str):
    """Text of an answer with its row, which says how it ended; empty if there is no answer."""

    __slots__ = ("row",)

    row: AnswerRow

    def __new__(cls, row: AnswerRow) -> Self:
        """Make a response from the text of a row."""
        self = super().__new__(cls, row.text or "")
        self.row = row
        return self

    @property
    def is_available(self) -> bool:
        """Whether there is an answer at all."""
        return self.row.text is not None

    @property
    def is_truncated(self) -> bool | None:
        """Whether the answer was cut; None if there is none."""
        if self.row.finish is None:
            return None
        return self.row.finish is Finish.TRUNCATED


def target(doc: Mapping[str, Any]) -> str:
    """Return the target as text; a template would turn it into a list or a number."""
    return str(doc["target"])


def stated(
    benchmark: str,
    response: str,
    choices: Sequence[str] = (),
) -> str | None:
    """Return the answer that a response is scored by; None if it states none.

    Args:
        benchmark: "gsm8k", "math", "gpqa_main" or "gpqa_diamond".
        response: text of the model; the last line of a `Response` that was cut is not an answer.
        choices: texts of A to D, if the question has choices.
    """
    # lm-eval's own models do not say whether a response was cut.
    is_cut = isinstance(response, Response) and response.is_truncated is True
    match benchmark:
        case "gsm8k":
            return expressions.stated_number(response, is_cut=is_cut)
        case "math":
            return expressions.stated_expression(response, is_cut=is_cut)
        case _:
            return stated_letter(response, choices, is_cut=is_cut)


def number(doc: Mapping[str, Any], results: Sequence[str]) -> dict[str, float]:
    """Score a response to GSM8K."""
    response = results[0]
    answer = stated("gsm8k", response)
    is_right = False
    if answer is not None:
        is_right = expressions.is_number(answer, target(doc))
    return _metrics(response, answer, correct=is_right)


def expression(doc: Mapping[str, Any], results: Sequence[str]) -> dict[str, float]:
    """Score a response to MATH."""
    response = results[0]
    answer = stated("math", response)
    is_right = False
    if answer is not None:
        is_right = expressions.is_expression(answer, target(doc))
    return _metrics(response, answer, correct=is_right)


def letter(doc: Mapping[str, Any], results: Sequence[str]) -> dict[str, float]:
    """Score a response to GPQA."""
    response = results[0]
    answer = stated("gpqa_main", response, doc["choices"])
    is_right = answer == target(doc)
    return _metrics(response, answer, correct=is_right)


def _metrics(
    response: str,
    answer: str | None,
    *,
    correct: bool,
) -> dict[str, float]:
    """Return the metrics of a response; none if it is missing, which does not count as wrong."""
    metrics = {
        "exact_match": float(correct),
        "no_answer": float(answer is None),
    }
    if not isinstance(response, Response):
        return metrics
    if not response.is_available:
        return {}
    if response.is_truncated is not None:
        metrics["truncated"] = float(response.is_truncated)
    return metrics
