"""Rules of plain text that no linter knows: names, one statement a line, docstrings."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCES = sorted(ROOT.glob("packages/*/src/**/*.py"))

SAYS_NOTHING = {"one", "told", "says", "found", "given", "made", "taken"}
"""Names that a reader has to look up: a noun says what the thing is."""

PUBLIC = {
    "rubric-eval/src/rubric_eval/errors.py": {"found"},
    "rubric-judge/src/rubric_judge/quality/calibration/report.py": {"given"},
    "rubric-judge/src/rubric_judge/pool/statistics.py": {"found"},
    "rubric-judge/src/rubric_judge/checks/directive.py": {"one"},
    "rubric-train-openrlhf/src/rubric_train_openrlhf/errors.py": {"found"},
    "rubric-train-openrlhf/src/rubric_train_openrlhf/run/folder.py": {"told"},
}
"""Names that users of the packages know, by module."""

IN_PROMPTS = "rubric-synth/src/rubric_synth/stages/llm/replies.py"
"""Its docstrings go to the model, and into the keys of cached calls."""


@cache
def _trees() -> tuple[tuple[str, ast.Module], ...]:
    names = [path.relative_to(ROOT / "packages").as_posix() for path in SOURCES]
    trees = [ast.parse(path.read_text("utf-8")) for path in SOURCES]
    return tuple(zip(names, trees, strict=True))


def _bound(node: ast.AST) -> str | None:
    match node:
        case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
            return name
        case ast.MatchAs(name=name) | ast.MatchStar(name=name):
            return name
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            return name.lstrip("_")
        case ast.ClassDef(name=name):
            return name.lstrip("_").lower()
        case _:
            return None


def _names(node: ast.AST) -> set[str]:
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}


def _is_independent(targets: list[ast.expr], values: list[ast.expr]) -> bool:
    """Find out whether no value reads what was assigned before it, as a swap does."""
    for place, target in enumerate(targets):
        written = ast.unparse(target)
        for value in values[place + 1 :]:
            if isinstance(target, ast.Name) and target.id in _names(value):
                return False
            if not isinstance(target, ast.Name) and written in ast.unparse(value):
                return False
    return True


def test_names_are_nouns_that_say_what_a_thing_is() -> None:
    wrong = {
        f"{name}:{getattr(node, 'lineno', 0)} {bound}"
        for name, tree in _trees()
        for node in ast.walk(tree)
        if (bound := _bound(node)) in SAYS_NOTHING and bound not in PUBLIC.get(name, ())
    }

    assert wrong == set()


def test_a_line_assigns_one_thing() -> None:
    wrong: list[str] = []
    for name, tree in _trees():
        for node in ast.walk(tree):
            match node:
                case ast.Assign(
                    targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)
                ) if len(targets) == len(values):
                    starred = any(
                        isinstance(part, ast.Starred) for part in targets + values
                    )
                    if not starred and _is_independent(targets, values):
                        wrong.append(f"{name}:{node.lineno}")
                case ast.Assign(targets=[ast.Tuple(elts=[ast.Name(id="_")])]):
                    wrong.append(f"{name}:{node.lineno} is an assertion")
                case _:
                    pass

    assert wrong == []


def test_literals_are_not_packed_by_stars() -> None:
    wrong: list[str] = []
    for name, tree in _trees():
        for node in ast.walk(tree):
            match node:
                case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Set(elts=parts):
                    pass
                case ast.Call(args=parts):
                    pass
                case _:
                    continue
            for part in parts:
                match part:
                    case ast.Starred(value=ast.Tuple() | ast.List()):
                        wrong.append(f"{name}:{part.lineno}")
                    case _:
                        pass

    assert wrong == []


def _docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield strings that stand as statements: docstrings, and those of attributes."""
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text)), lineno=line):
                yield line, text
            case _:
                pass


@pytest.mark.parametrize("word", ["Of", "What"])
def test_docstrings_begin_with_what_a_thing_does_or_is(word: str) -> None:
    begins = re.compile(rf"\s*{word}\b")
    wrong = [
        f"{name}:{line}"
        for name, tree in _trees()
        if name != IN_PROMPTS
        for line, text in _docstrings(tree)
        if begins.match(text)
    ]

    assert wrong == []
