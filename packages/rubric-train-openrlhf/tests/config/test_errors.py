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
from rubric_train_openrlhf import errors

CLASSES = [
    cls
    for _, cls in inspect.getmembers(errors, inspect.isclass)
    if issubclass(cls, errors.TrainError)
]


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_every_error_is_in_the_tree_and_can_be_pickled(cls: type[errors.TrainError]) -> None:
    error = cls("what, which, where")
    error.extra = 3  # pyright: ignore[reportAttributeAccessIssue]  # as a caller may

    copy = pickle.loads(pickle.dumps(error))

    assert isinstance(copy, RubricError)
    assert (str(copy), vars(copy)) == (str(error), vars(error))
    assert cls is errors.TrainError or cls.__name__ in (errors.__doc__ or "")


def test_every_text_is_told_and_every_one_that_is_told_is_there() -> None:
    folder = Path(inspect.getfile(errors)).parent
    texts = tomllib.loads((folder / "errors.toml").read_text("utf-8"))
    source = "\n".join(path.read_text("utf-8") for path in folder.rglob("*.py"))

    assert sorted(texts) == sorted(re.findall(r'Error\.told\(\s*"(\w+)"', source))


def test_every_text_is_given_what_stands_in_its_slots() -> None:
    folder = Path(inspect.getfile(errors)).parent
    texts = tomllib.loads((folder / "errors.toml").read_text("utf-8"))
    trees = [ast.parse(path.read_text("utf-8")) for path in folder.rglob("*.py")]
    calls = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call)]
    told = {}
    for call in calls:
        match call:
            case ast.Call(func=ast.Attribute(attr="told"), args=[ast.Constant(value=str(name))]):
                told[name] = {keyword.arg for keyword in call.keywords}
            case _:
                pass

    assert set(texts) <= set(told)
    for name, given in told.items():
        if name in texts and None not in given:  # those of `**` are not to be read off
            text = texts[name] if isinstance(texts[name], str) else texts[name]["says"]
            slots = [slot for _, slot, _, _ in Formatter().parse(text) if slot]
            assert {re.split(r"[.\[]", slot)[0] for slot in slots} <= given, name


def test_an_error_keeps_what_it_is_told_about() -> None:
    found = errors.ResumeError.told("holds_run", path=Path("runs/a"))
    assert str(found) == ("'runs/a' holds a run; continue it with --resume or choose another `out`")
    assert found.path == Path("runs/a")
    assert errors.TrainConfigError.told("no_gpu").location == "device"
    unfit = errors.NonFiniteUpdateError.told("update_not_finite", step=3, loss=1.0, grad_norm=2.0)
    assert pickle.loads(pickle.dumps(unfit)).step == 3
