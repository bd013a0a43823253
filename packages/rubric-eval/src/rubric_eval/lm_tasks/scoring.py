"""What the YAML files name as `process_results`: from a response to lm-eval's metrics.

exact_match  1 where the answer is the right one
no_answer    1 where none is stated
truncated    1 where the response was cut; only of a model that says so
"""

from collections.abc import Mapping, Sequence
from typing import Any, Self

from rubric_core import Finish
from rubric_eval.lm_tasks.answers import expressions
from rubric_eval.lm_tasks.answers.stated import stated_letter
from rubric_eval.records.files import AnswerRow


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


def target(doc: Mapping[str, Any]) -> str:
    """Return the target as text, which a template would read as a list or a number."""
    return str(doc["target"])


def stated(benchmark: str, response: str, choices: Sequence[str] = ()) -> str | None:
    """Return the answer that a response is scored by; None where it states none.

    Args:
        benchmark: "gsm8k", "math", "gpqa_main" or "gpqa_diamond".
        response: what the model wrote; a `Response` that was cut states no answer by its last line.
        choices: texts of A to D, of a question that has them.
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
    found = stated("gsm8k", results[0])
    is_right = found is not None and expressions.is_number(found, target(doc))
    return _metrics(results[0], found, correct=is_right)


def expression(doc: Mapping[str, Any], results: Sequence[str]) -> dict[str, float]:
    """Score a response to MATH."""
    found = stated("math", results[0])
    is_right = found is not None and expressions.is_expression(found, target(doc))
    return _metrics(results[0], found, correct=is_right)


def letter(doc: Mapping[str, Any], results: Sequence[str]) -> dict[str, float]:
    """Score a response to GPQA."""
    found = stated("gpqa_main", results[0], doc["choices"])
    return _metrics(results[0], found, correct=found == target(doc))


def _metrics(response: str, found: str | None, *, correct: bool) -> dict[str, float]:
    """An answer that never came is left out of every mean: it is no wrong one."""
    if isinstance(response, Response) and not response.is_available:
        return {}
    metrics = {"exact_match": float(correct), "no_answer": float(found is None)}
    if isinstance(response, Response) and response.is_truncated is not None:
        metrics["truncated"] = float(response.is_truncated)
    return metrics
