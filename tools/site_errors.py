"""The site's index of errors, made when it is built: message, and what to do.

Messages come out of the source, remedies for whole families out of the tables that commands read.
"""

import ast
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

ROOT = Path(__file__).resolve().parents[1]
_INTRODUCTION: Final = (
    "Search for words of the message that are no value of yours: `…` stands for a value, a path or",
    "a name. What to do stands in the message itself too. What is seen without a message is in",
    "[troubleshooting](../troubleshooting.md).",
)
TABLES: Final = {
    "A value of a configuration, or of a line of a file": (
        "rubric-core/src/rubric_core/configuration.toml",
        ("needs",),
    ),
    "A YAML file that cannot be read": (
        "rubric-judge/src/rubric_judge/yaml_errors.toml",
        ("", "not_for_settings"),
    ),
    "A model's settings that do not fit together": (
        "rubric-judge/src/rubric_judge/provider/misfits.toml",
        (),
    ),
    "A configuration whose keys do not fit together": (
        "rubric-train-openrlhf/src/rubric_train_openrlhf/config/problems.toml",
        ("run", "cluster"),
    ),
    "A model or a server that does not answer": (
        "rubric-judge/src/rubric_judge/provider/remedies.toml",
        ("reason", "status", "missing", "key"),
    ),
    "A document or a draft that was left out": (
        "rubric-synth/src/rubric_synth/tables/remedies.toml",
        ("remedy",),
    ),
    "No dataset where one should be": ("rubric-synth/src/rubric_synth/tables/no_dataset.toml", ()),
    "A run that ended, with a warning": (
        "rubric-train-openrlhf/src/rubric_train_openrlhf/run/warnings.toml",
        (),
    ),
    "Models that cannot be compared": (
        "rubric-eval/src/rubric_eval/comparison/refusals.toml",
        (),
    ),
    "What a rehearsal finds": (
        "rubric-train-openrlhf/src/rubric_train_openrlhf/cluster/rehearse/findings.toml",
        (),
    ),
    "What lint finds in a task": ("rubric-judge/src/rubric_judge/lint/findings.toml", ()),
}
"""Headings, with the file of the texts and the tables in it that are texts by their keys."""
_CATALOGUES: Final = "packages/*/src/*/errors.toml"
"""Messages by the names that an error is `told` with, or that `says` takes."""


def errors_page() -> str:
    """Return the page: families of problems first, then every message by its type."""
    lines = ["# Look up an error", "", *_INTRODUCTION, ""]
    for heading, (path, tables) in TABLES.items():
        lines += [f"## {heading}", "", "| | what to do |", "|---|---|"]
        lines += [f"| `{key}` | {_cell(text)} |" for key, text in _texts(path, tables)]
        lines.append("")
    lines += ["## Every message", ""]
    for kind, found in sorted(_messages().items()):
        lines += [f"### {kind}", "", "| message | what to do |", "|---|---|"]
        lines += [f"| {_cell(said)} | {_cell(remedy)} |" for said, remedy in sorted(found)]
        lines.append("")
    shown = "\n".join(lines)
    lines += ["### Parts of messages, and what others are made of", "", "| message |", "|---|"]
    parts = (text for path in ROOT.glob(_CATALOGUES) for _, text in _texts(str(path), ()))
    rows = {one: " | ".join(map(_cell, _split(one))) for one in sorted(parts)}
    lines += [f"| {_cell(one)} |" for one, row in rows.items() if f"| {row} |" not in shown]
    return "\n".join([*lines, ""])


def _texts(path: str, tables: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    content = tomllib.loads((ROOT / "packages" / path).read_text("utf-8"))
    for part in [content[table] if table else content for table in tables or ("",)]:
        for key, value in part.items():
            said = {"says": value} if isinstance(value, str) else value
            texts = [said[name] for name in ("says", "detail", "remedy") if name in said]
            if texts:
                yield key, re.sub(r"\{[^{}]*\}", "…", "; ".join(texts))


def _messages() -> dict[str, set[tuple[str, str]]]:
    """Messages with a remedy, as said and remedy, by the type of the exception."""
    found: dict[str, set[tuple[str, str]]] = {}
    catalogues = {path.parent: _texts(str(path), ()) for path in ROOT.glob(_CATALOGUES)}
    told_in = {folder: dict(texts) for folder, texts in catalogues.items()}
    for path in sorted(ROOT.glob("packages/*/src/**/*.py")):
        told = next((told_in[one] for one in path.parents if one in told_in), dict[str, str]())
        tree = ast.parse(path.read_text("utf-8"))
        named = list(_named(tree))
        for node in ast.walk(tree):
            match node:
                case ast.Call(
                    func=ast.Attribute(value=ast.Name(kind), attr="told"), args=[ast.Constant(name)]
                ):
                    message = told.get(str(name), "")
                case ast.Raise(exc=ast.Call(func=raised, args=[first, *_]), lineno=line):
                    before = (text for at, name, text in named if at < line and _is(first, name))
                    first = max(before, key=lambda text: text.lineno, default=first)
                    kind, message = ast.unparse(raised).rpartition(".")[2], _shown(first, told)
                case _:
                    continue
            said, remedy = _split(message)
            if remedy and re.fullmatch(r"[A-Z]\w+Error", kind):
                found.setdefault(kind, set()).add((said, remedy))
    return found


def _named(tree: ast.Module) -> Iterator[tuple[int, str, ast.expr]]:
    """Where a text gets a name, the name, and what `says` it."""
    for node in ast.walk(tree):
        match node:
            case ast.Assign(
                targets=[ast.Name(name)], value=ast.Call(func=ast.Name("says")) as text
            ):
                yield node.lineno, name, text
            case _:
                continue


def _is(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _shown(message: ast.expr, told: Mapping[str, str]) -> str:
    """A message with `…` for its values; nothing where it is put together elsewhere."""
    match message:
        case ast.Call(
            func=ast.Name("says") | ast.Attribute(attr="says"), args=[ast.Constant(str(name))]
        ):
            return told[name]
        case _:
            pass
    if isinstance(message, ast.Constant):
        return str(message.value)
    if not isinstance(message, ast.JoinedStr):
        return ""
    parts = [one.value if isinstance(one, ast.Constant) else "…" for one in message.values]
    return "".join(map(str, parts))


def _split(message: str) -> tuple[str, str]:
    """What is wrong, and what to do: our messages end in it, after `;` or `:`."""
    for sign in ("; ", ": "):
        said, found, remedy = message.rpartition(sign)
        if found and len(remedy.split()) > 1 and re.search(r"\w{3}", said):
            return said, remedy
    return message, ""


def _cell(text: str) -> str:
    shown = " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
    # What stands in code already, as it is.
    found = re.compile(r"`[^`]*`|--[\w-]+|\[\w+\]")
    return found.sub(lambda one: one[0] if one[0][0] == "`" else f"`{one[0]}`", shown)
