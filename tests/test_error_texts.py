"""What errors.toml of a package holds, and what is said of it."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path
from string import Formatter

import pytest

ROOT = Path(__file__).resolve().parents[1]

KEPT = {"line", "path", "source"}
"""Attributes of errors, which `told` keeps whether the text names them or not."""


@pytest.mark.parametrize("package", ["judge", "synth"])
def test_every_text_is_said_with_what_stands_in_its_slots(package: str) -> None:
    folder = ROOT / f"packages/rubric-{package}/src/rubric_{package}"
    texts = tomllib.loads((folder / "errors.toml").read_text("utf-8"))
    trees = [ast.parse(path.read_text("utf-8")) for path in folder.rglob("*.py")]
    calls = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call)]
    said = {}
    for call in calls:
        match call:
            case ast.Call(
                func=ast.Name("says") | ast.Attribute(attr="says" | "told"),
                args=[ast.Constant(str(name))],
            ):
                said[name] = {keyword.arg for keyword in call.keywords}
            case _:
                pass

    assert said.keys() == texts.keys()
    for name, given in said.items():
        slots = [slot for _, slot, _, _ in Formatter().parse(texts[name]) if slot]
        wanted = {re.split(r"[.\[]", slot)[0] for slot in slots}
        assert given <= wanted | KEPT | {None}, name
        assert wanted <= given or None in given, name  # those of `**` are not to be read off
