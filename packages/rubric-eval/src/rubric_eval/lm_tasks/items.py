"""A row of a benchmark, as what is asked of a model."""

from __future__ import annotations

import hashlib
import json
import random
import re
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Final

from rubric_eval.errors import BenchmarkDataError
from rubric_eval.lm_tasks.answers.stated import statements

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path


def shuffled(question: str, correct: str, wrong: Sequence[str]) -> tuple[tuple[str, ...], int]:
    """Return the choices in the order of this question, and where the correct one is.

    The same question has the same order in every process, on every machine, in every subset.

    Args:
        question: text of the question.
        correct: the correct choice.
        wrong: the others.
    """
    choices = [_tidy(choice) for choice in (correct, *wrong)]
    digest = hashlib.sha256(json.dumps([question, *choices]).encode()).digest()
    order = list(range(len(choices)))
    random.Random(int.from_bytes(digest[:8], "big")).shuffle(order)
    return tuple(choices[index] for index in order), order.index(0)


def _tidy(choice: str) -> str:
    return re.sub(r"\s+", " ", choice.replace(" [title]", ". ")).strip()


@dataclass(frozen=True)
class Item:
    """One question of a benchmark."""

    item_id: str
    """Hash of question, choices and target: the same in every run."""

    question: str
    target: str
    """Number, expression, or letter."""

    group: str = ""
    """Subject or domain, where the benchmark has one."""

    choices: tuple[str, ...] = ()
    """Texts of A to D, in the order in which they are shown."""

    def shown(self) -> str:
        """Return the question with its choices, for a reader of what was answered."""
        lettered = [f"({a}) {text}" for a, text in zip("ABCD", self.choices, strict=False)]
        return "\n".join((self.question, "", *lettered)) if lettered else self.question

    def document(self) -> dict[str, object]:
        """Return the item as lm-eval's documents have it."""
        return {**asdict(self), "choices": list(self.choices)}


def read_items(
    benchmark: str, rows: Iterable[tuple[int, Mapping[str, object]]], *, source: Path | str
) -> list[Item]:
    """Turn the rows of a benchmark into items.

    A question that is there twice keeps both: the second one's id ends in `-2`.

    Args:
        benchmark: "gsm8k", "math", "gpqa_main" or "gpqa_diamond".
        rows: line and fields.
        source: file or data set, for errors.

    Raises:
        BenchmarkDataError: no rows, or one that lacks what the benchmark's rows have.
    """
    read = READERS[benchmark]
    items: list[Item] = []
    seen: dict[str, int] = {}
    for line, row in rows:
        try:
            item = read(row)
        except _FieldError as error:
            raise BenchmarkDataError(
                f"{source}:{line}: {error}; give the rows of {benchmark} as they are published"
            ) from None
        count = seen[item.item_id] = seen.get(item.item_id, 0) + 1
        items.append(item if count == 1 else replace(item, item_id=f"{item.item_id}-{count}"))
    if not items:
        raise BenchmarkDataError(f"{source} holds no rows; give those of {benchmark}")
    return items


class _FieldError(ValueError):
    """A field that a row must have."""


def _gsm8k(row: Mapping[str, object]) -> Item:
    question, answer = _text(row, "question"), _text(row, "answer")
    _, mark, target = answer.rpartition("####")
    if not mark or not target.strip():
        raise _FieldError("field 'answer' does not end in '#### ' and a number")
    return _item(question, target.strip().replace(",", ""))


def _math(row: Mapping[str, object]) -> Item:
    question = _text(row, "problem")
    group = str(row.get("subject") or row.get("type") or "")
    if isinstance(row.get("answer"), str) and str(row["answer"]).strip():
        return _item(question, str(row["answer"]).strip(), group=group)
    boxes = [one.text for one in statements(_text(row, "solution")) if one.is_boxed]
    if not boxes:
        raise _FieldError(r"there is no field 'answer', and no \boxed{} in 'solution'")
    return _item(question, boxes[-1], group=group)


def _gpqa(row: Mapping[str, object]) -> Item:
    question, correct = _text(row, "Question"), _text(row, "Correct Answer")
    wrong = [_text(row, f"Incorrect Answer {number}") for number in (1, 2, 3)]
    choices, position = shuffled(question, correct, wrong)
    group = str(row.get("High-level domain") or "")
    return _item(question, "ABCD"[position], group=group, choices=choices)


def _item(question: str, target: str, *, group: str = "", choices: tuple[str, ...] = ()) -> Item:
    canonical = json.dumps([question, choices, target], ensure_ascii=True)
    item_id = hashlib.sha256(canonical.encode()).hexdigest()[:16]
    return Item(item_id, question, target, group=group, choices=choices)


def _text(row: Mapping[str, object], field: str) -> str:
    value = row.get(field)
    if not isinstance(value, str) or not value.strip():
        raise _FieldError(f"field {field!r} is missing, empty or no text")
    return value.strip()


READERS: Final[dict[str, Callable[[Mapping[str, object]], Item]]] = {
    "gsm8k": _gsm8k,
    "math": _math,
    "gpqa_main": _gpqa,
    "gpqa_diamond": _gpqa,
}
"""How a row of each benchmark is read."""
