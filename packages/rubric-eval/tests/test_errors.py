from __future__ import annotations

import ast
import inspect
import pickle
import re
import tomllib
from pathlib import Path
from string import Formatter

import pytest

from rubric_core import RubricError
from rubric_eval import (
    ComparisonError,
    EvalError,
    EvalFolderError,
    EvalShapeError,
    HeldoutAbortError,
    SelectionLeakError,
    errors,
)

ERRORS = [
    EvalError("message"),
    EvalShapeError("message"),
    EvalFolderError("message"),
    ComparisonError("message"),
    SelectionLeakError("message", task_ids=("a", "b")),
    HeldoutAbortError("message", unavailable_frac=0.25, reasons={"timeout": 1}),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_errors_survive_pickling_with_what_they_hold(error: EvalError) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == "message"
    assert vars(copy) == vars(error)
    assert isinstance(copy, RubricError)


def test_errors_are_the_matching_builtins() -> None:
    assert issubclass(EvalShapeError, ValueError)
    assert issubclass(ComparisonError, ValueError)
    assert issubclass(SelectionLeakError, ValueError)
    assert issubclass(HeldoutAbortError, RuntimeError)


FOLDER = Path(inspect.getfile(errors)).parent
TEXTS = tomllib.loads((FOLDER / "errors.toml").read_text("utf-8"))


def test_every_message_is_told_and_every_one_that_is_told_is_there() -> None:
    source = "\n".join(path.read_text("utf-8") for path in FOLDER.rglob("*.py"))

    assert sorted(TEXTS) == sorted(re.findall(r'(?:Error\.told|\.refuse)\(\s*"(\w+)"', source))


def test_every_message_is_given_what_stands_in_its_slots() -> None:
    given_by_refuse = {"failed", "of", "percent"}
    for path in FOLDER.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            match node:
                case ast.Call(
                    func=ast.Attribute(attr="told" | "refuse" as by),
                    args=[ast.Constant(value=str(name)), *_],
                    keywords=keywords,
                ) if name in TEXTS:
                    given = {keyword.arg for keyword in keywords}
                    if None not in given:  # those of `**` are not to be read off
                        text = TEXTS[name] if isinstance(TEXTS[name], str) else TEXTS[name]["says"]
                        slots = [slot for _, slot, _, _ in Formatter().parse(text) if slot]
                        wanted = {re.split(r"[.\[]", slot)[0] for slot in slots}
                        assert wanted <= given | (given_by_refuse if by == "refuse" else set()), (
                            name
                        )
                case _:
                    pass
