"""What errors.toml of a package holds, and what is said of it."""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from string import Formatter

import pytest

ROOT = Path(__file__).resolve().parents[1]

KEPT = {"line", "path", "source"}
"""Attributes of errors, which `told` keeps whether the text names them or not."""
BY_REFUSE = {"failed", "of", "percent"}
"""Slots that `refuse` of rubric_eval fills itself."""


def _said(tree: ast.AST) -> Iterator[tuple[str, set[str | None]]]:
    """Yield each text that is said, with what is given for its slots; None for a `**`."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(
                func=ast.Name("says") | ast.Attribute(attr="says" | "told" | "refuse") as function,
                args=[ast.Constant(str(name)), *_],
            ):
                given = {keyword.arg for keyword in node.keywords}
                is_refusal = isinstance(function, ast.Attribute) and function.attr == "refuse"
                yield name, given | (BY_REFUSE if is_refusal else set())
            case _:
                pass


@pytest.mark.parametrize("package", ["eval", "judge", "synth", "train_openrlhf"])
def test_every_text_is_said_with_what_stands_in_its_slots(package: str) -> None:
    named = package.replace("_", "-")
    folder = ROOT / f"packages/rubric-{named}/src/rubric_{package}"
    texts = tomllib.loads((folder / "errors.toml").read_text("utf-8"))
    trees = [ast.parse(path.read_text("utf-8")) for path in folder.rglob("*.py")]
    said = [found for tree in trees for found in _said(tree)]

    assert {name for name, _ in said} == texts.keys()
    for name, given in said:
        text = texts[name] if isinstance(texts[name], str) else texts[name]["says"]
        slots = [slot for _, slot, _, _ in Formatter().parse(text) if slot]
        wanted = {re.split(r"[.\[]", slot)[0] for slot in slots}
        assert wanted <= given or None in given, name  # those of `**` are not to be read off
        if package in {"judge", "synth"}:
            assert given <= wanted | KEPT | {None}, name
        else:
            assert [one for one, _ in said].count(name) == 1, name
