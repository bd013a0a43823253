"""The site's index of errors, made when it is built: message, and what to do.

Messages come out of the source, as f-strings, and so do remedies for whole families.
"""

import ast
import re
from collections.abc import Iterator
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
        "rubric-core/src/rubric_core/needs.py",
        ("NEEDS",),
    ),
    "A YAML file that cannot be read": (
        "rubric-judge/src/rubric_judge/ui/yaml_files.py",
        ("_Loader", "_NOT_FOR_SETTINGS"),
    ),
    "A model's settings that do not fit together": (
        "rubric-judge/src/rubric_judge/models/model_config.py",
        ("_misfits",),
    ),
    "A configuration whose keys do not fit together": (
        "rubric-train-openrlhf/src/rubric_train_openrlhf/config/train.py",
        ("TrainConfig",),
    ),
    "A cluster whose keys do not fit together": (
        "rubric-train-openrlhf/src/rubric_train_openrlhf/config/cluster.py",
        ("ClusterConfig",),
    ),
    "A model or a server that does not answer": (
        "rubric-judge/src/rubric_judge/models/failures.py",
        (
            "_BY_REASON",
            "_BY_STATUS",
            "_BY_FIELD",
            "field_remedy",
            "_NO_PAGE",
            "status_error",
            "key_remedy",
        ),
    ),
    "A document or a draft that was left out": (
        "rubric-synth/src/rubric_synth/remedies.py",
        ("_REMEDY",),
    ),
    "No dataset where one should be": (
        "rubric-synth/src/rubric_synth/run/dataset/folder.py",
        ("_why_no_dataset",),
    ),
    "A run that ended, with a warning": (
        "rubric-train-openrlhf/src/rubric_train_openrlhf/run/live_summary.py",
        ("_warning", "_collapse"),
    ),
    "Models that cannot be compared": (
        "rubric-eval/src/rubric_eval/comparison/pairing.py",
        ("pair", "_check_same", "_check_forms", "_check_each", "_SHARED", "_OF_EACH"),
    ),
    "What a rehearsal finds": (
        "rubric-train-openrlhf/src/rubric_train_openrlhf/cluster/rehearse/",
        (),
    ),
    "What lint finds in a task": (
        "rubric-judge/src/rubric_judge/quality/lint/",
        (),
    ),
}
"""Headings, with the file of the texts, and the names of texts, and of dicts, functions and classes
that hold them; of a folder, all that is called with a `remedy`."""
_SLOT: Final = re.compile(r"(?<= )\{\w+\}")
"""Slot of a text that is no f-string."""
_FEWEST_WORDS: Final = 4
"""Words of a part of a message that is listed."""


_FEWEST_LETTERS: Final = 24
"""Letters of a part of a message that somebody may search for; shorter ones say nothing alone."""


def _letters(text: str) -> int:
    return sum(letter.isalpha() for letter in text)


def errors_page() -> str:
    """Return the page: families of problems first, then every message by its type."""
    lines = ["# Look up an error", "", *_INTRODUCTION, ""]
    for heading, (path, tables) in TABLES.items():
        lines += [f"## {heading}", "", "| | what to do |", "|---|---|"]
        if path.endswith("/"):
            lines += [f"| {said} | {remedy} |" for said, remedy in _findings(path)]
        else:
            lines += [f"| {key} | {text} |" for key, text in _in_python(path, tables)]
        lines.append("")
    lines += ["## Every message", ""]
    for kind, found in sorted(_messages().items()):
        lines += [f"### {kind}", "", "| message | what to do |", "|---|---|"]
        lines += [
            f"| {_cell(said)} | {_cell(remedy)} |" for said, remedy in sorted(found)
        ]
        lines.append("")
    shown = "\n".join(lines)
    lines += [
        "### Parts of messages, and what others are made of",
        "",
        "| message |",
        "|---|",
    ]
    parts = (part for part in _parts() if _letters(part) >= _FEWEST_LETTERS)
    rows = {part: " | ".join(map(_cell, _split(part))) for part in sorted(parts)}
    lines += [
        f"| {_cell(part)} |" for part, row in rows.items() if f"| {row} |" not in shown
    ]
    return "\n".join([*lines, ""])


def _in_python(path: str, names: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Cells: texts with their keys in a dict, or else what is wrong and what to do."""
    tree = ast.parse((ROOT / "packages" / path).read_text("utf-8"))
    for name in names:
        for node in ast.walk(tree):
            match node:
                case (
                    ast.Assign(targets=[ast.Name(id=target)], value=ast.Dict() as held)
                    | ast.AnnAssign(
                        target=ast.Name(id=target), value=ast.Dict() as held
                    )
                ) if target == name:
                    for key, text in zip(held.keys, held.values, strict=True):
                        shown = _SLOT.sub("…", _shown(text))
                        if key is not None and shown:
                            yield f"`{_key(key)}`", _cell(shown)
                case (
                    ast.Assign(
                        targets=[ast.Name(id=target)], value=ast.Constant() as text
                    )
                    | ast.AnnAssign(
                        target=ast.Name(id=target), value=ast.Constant() as text
                    )
                ) if target == name:
                    said, remedy = _split(_shown(text))
                    yield _cell(said), _cell(remedy)
                case ast.FunctionDef() | ast.ClassDef() if node.name == name:
                    for text in _texts_in(node):
                        if len(text.split()) >= _FEWEST_WORDS:
                            said, remedy = _split(text)
                            yield _cell(said), _cell(remedy)
                case _:
                    continue


def _findings(folder: str) -> Iterator[tuple[str, str]]:
    """Cells: what is found, after its code where it has one, and what to do."""
    for path in sorted((ROOT / "packages" / folder).glob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        named = list(_named(tree))
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call):
                continue
            said = [_shown(_read(text, named, node.lineno)) for text in node.args]
            said = [f"`{text}`:" if text.isidentifier() else text for text in said]
            for keyword in node.keywords:
                remedy = _shown(_read(keyword.value, named, node.lineno))
                if keyword.arg == "remedy" and remedy:
                    yield _cell(" ".join(said)), _cell(remedy)


def _key(key: ast.expr) -> str:
    return (
        str(key.value)
        if isinstance(key, ast.Constant)
        else ast.unparse(key).rpartition(".")[2].lower()
    )


def _messages() -> dict[str, set[tuple[str, str]]]:
    """Messages with a remedy, as said and remedy, by the type of the exception."""
    messages: dict[str, set[tuple[str, str]]] = {}
    for tree in _modules():
        named = list(_named(tree))
        for node in ast.walk(tree):
            match node:
                case ast.Call(func=raised, args=[first, *_], lineno=line):
                    first = _read(first, named, line)
                    kind = ast.unparse(raised).rpartition(".")[2]
                case _:
                    continue
            said, remedy = _split(_shown(first))
            if remedy and re.fullmatch(r"[A-Z]\w+Error", kind):
                messages.setdefault(kind, set()).add((said, remedy))
    return messages


def _modules() -> Iterator[ast.Module]:
    for path in sorted(ROOT.glob("packages/*/src/**/*.py")):
        yield ast.parse(path.read_text("utf-8"))


def _named(tree: ast.Module) -> Iterator[tuple[int, str, ast.expr]]:
    """Where a text gets a name, the name, and the text."""
    for node in ast.walk(tree):
        match node:
            case (
                ast.Assign(
                    targets=[ast.Name(name)],
                    value=ast.JoinedStr() | ast.Constant() as text,
                )
                | ast.AnnAssign(
                    target=ast.Name(name),
                    value=ast.JoinedStr() | ast.Constant() as text,
                )
            ):
                yield node.lineno, name, text
            case _:
                continue


def _read(
    text: ast.expr, named: list[tuple[int, str, ast.expr]], line: int
) -> ast.expr:
    """The text that a name stands for: what it was given last before a line."""
    before = (given for at, name, given in named if at < line and _is(text, name))
    return max(before, key=lambda given: given.lineno, default=text)


def _parts() -> set[str]:
    """Texts of errors, and those of two parts that a function names, yields or returns."""
    parts: set[str] = set()
    for tree in _modules():
        for function in ast.walk(tree):
            if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            for node in ast.walk(function):
                texts = list(_texts_in(node))
                if isinstance(node, ast.Raise) or _is_said(node):
                    parts.update(texts)
                elif isinstance(
                    node, ast.Assign | ast.AugAssign | ast.Return | ast.Yield
                ):
                    parts |= {text for text in texts if re.search(r"[;:] ", text)}
    return {text for text in parts if len(text.split()) >= _FEWEST_WORDS}


def _is_said(node: ast.AST) -> bool:
    """Whether a call is of an error, or of what refuses or warns."""
    if not isinstance(node, ast.Call):
        return False
    name = ast.unparse(node.func).rpartition(".")[2]
    return re.fullmatch(r"[A-Z]\w+Error|_refuse|warn", name) is not None


def _texts_in(node: ast.AST) -> Iterator[str]:
    """Texts in a statement or an expression, also those for a value within another text."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return  # a docstring
    if isinstance(node, ast.JoinedStr | ast.Constant):
        yield _shown(node)
    for child in ast.iter_child_nodes(node):
        if not (isinstance(node, ast.JoinedStr) and isinstance(child, ast.Constant)):
            yield from _texts_in(child)


def _is(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _shown(message: ast.expr) -> str:
    """A message with `…` for its values; nothing where it is put together elsewhere."""
    if isinstance(message, ast.Constant):
        return message.value if isinstance(message.value, str) else ""
    if not isinstance(message, ast.JoinedStr):
        return ""
    parts = [
        one.value if isinstance(one, ast.Constant) else "…" for one in message.values
    ]
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
