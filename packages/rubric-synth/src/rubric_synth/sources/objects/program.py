"""The name of the program that a manual is about, where something beside it says so."""

import ast
import re
import tomllib
from collections.abc import Callable, Iterator
from configparser import ConfigParser, Error
from pathlib import Path
from typing import cast

from rubric_synth.sources.raw_text import NotTextError, SourceFile
from rubric_synth.tables import patterns

_PATTERNS = patterns("objects")
_MOST_BYTES = 1_000_000


class Programs:
    """Reader of the files that name a project, each read once."""

    def __init__(self) -> None:
        """Know no folder yet."""
        self._names: dict[Path, str] = {}

    def program_of(self, file: SourceFile) -> str:
        """Return the name of the project that a file documents; "" where nothing says it.

        It is looked for in the folder of the file, in those above it up to the folder that is
        collected, and in the one above that, where a project keeps its metadata.

        Args:
            file: A page of a manual.
        """
        folder = file.path.resolve().parent
        top = file.root or folder
        while True:
            name = self._name_in(folder)
            if name or folder in {top.parent, folder.parent}:
                return name
            folder = folder.parent

    def _name_in(self, folder: Path) -> str:
        if folder not in self._names:
            self._names[folder] = _name_in(folder)
        return self._names[folder]


def _name_in(folder: Path) -> str:
    for file, read in _READERS.items():
        path = folder / file
        try:
            data = SourceFile(path, file, folder).read(most=_MOST_BYTES)
            name = read(data.decode())
        except (NotTextError, ValueError, SyntaxError, Error, RecursionError):
            continue
        name = plain_name(name)
        if name:
            return name
    return ""


def plain_name(raw: str) -> str:
    """Return the name of a project without "documentation" after it; "" for what is no name."""
    name = _PATTERNS["documentation"].sub("", raw.strip()).strip()
    return name if _PATTERNS["program"].fullmatch(name) else ""


def title_program(title: str) -> str:
    """Return the project that the title of a page made by Sphinx names; "" for any other page.

    Args:
        title: "Configuration Handling — Flask Documentation (3.0.x)".
    """
    match = _PATTERNS["title_of_sphinx"].search(title)
    return plain_name(match["name"]) if match is not None else ""


def _of_conf(text: str) -> str:
    """Return `project` of a conf.py, which is read and not run."""
    texts: dict[str, str] = {}
    for statement in ast.parse(text).body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                pass
            case _:
                for name in _assigned(statement):
                    texts.pop(name, None)
                continue
        match value:
            case ast.Constant(value=str(content)):
                texts[name] = content
            case ast.Name(id=other) if other in texts:
                texts[name] = texts[other]
            case _:
                texts.pop(name, None)
    return texts.get("project", "")


def _assigned(statement: ast.stmt) -> Iterator[str]:
    """Yield the names that a statement may give another value: "if …: project = …"."""
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store | ast.Del):
            yield node.id


def _of_mkdocs(text: str) -> str:
    match = re.search(r"^site_name:[ \t]*(['\"]?)(.+?)\1[ \t]*$", text, re.MULTILINE)
    return match[2] if match is not None else ""


def _of_pyproject(text: str) -> str:
    content = tomllib.loads(text)
    for keys in (("project", "name"), ("tool", "poetry", "name")):
        value: object = content
        for key in keys:
            table = cast("dict[str, object]", value) if isinstance(value, dict) else {}
            value = table.get(key)
        if isinstance(value, str):
            return value
    return ""


def _of_setup(text: str) -> str:
    parser = ConfigParser(interpolation=None)
    parser.read_string(text)
    return parser.get("metadata", "name", fallback="")


def _of_package(text: str) -> str:
    match = re.search(r"^Name: (.+)$", text, re.MULTILINE)
    return match[1] if match is not None else ""


_READERS: dict[str, Callable[[str], str]] = {
    "conf.py": _of_conf,
    "mkdocs.yml": _of_mkdocs,
    "mkdocs.yaml": _of_mkdocs,
    "pyproject.toml": _of_pyproject,
    "setup.cfg": _of_setup,
    "PKG-INFO": _of_package,
}
"""Files that name a project, the surest first."""
