"""Reader of the documentation of an installed package (`python:PACKAGE`), from its docstrings.

Modules are imported, never executed as scripts; private modules, tests and command-line entry
modules are left alone. An object is read once, under the shortest public path that names it.
"""

import contextlib
import importlib
import importlib.util
import inspect
import io
import pkgutil
import re
import signal
import threading
import warnings
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from types import FrameType, ModuleType
from typing import Final, NamedTuple

from rubric_core.rewriting import patterns
from rubric_synth.document import (
    ApiEntry,
    ApiForm,
    ApiItem,
    Document,
    Found,
    RejectionReason,
)
from rubric_synth.errors import SourceError
from rubric_synth.sources.cleaning.markup import inline_to_prose, rest_to_prose
from rubric_synth.sources.raw_text import NotTextError
from rubric_synth.tables import read_table

_SKIPPED_MODULES: Final = frozenset({"tests", "test", "testsuite", "conftest", "setup"})
_MIN_DOCSTRING_CHARS: Final = 40


def read_package(package: str) -> Found:
    """Yield one document per public documented function, class and method of a package.

    Raises:
        SourceError: The package is not installed or cannot be imported.
    """
    source = f"python:{package}"
    if not all(part.isidentifier() for part in package.split(".")) or not _is_installed(
        package
    ):
        raise SourceError(
            f"package {package!r} is not installed here; install it (`uv pip install NAME`), "
            "put the folder that holds it on PYTHONPATH, or correct the name as `import` "
            "takes it",
            source=source,
        )
    modules: dict[str, ModuleType] = {}
    failures: dict[str, str] = {}
    with _quiet():
        _import_tree(package, modules, failures)
    if package not in modules:
        failed = failures[package]
        raise SourceError(
            f"package {package!r} cannot be imported ({failed}); repair it first",
            source=source,
        )
    return _read_modules(package, modules, failures)


def _read_modules(
    package: str, modules: dict[str, ModuleType], failures: dict[str, str]
) -> Found:
    for name, kind in sorted(failures.items()):
        yield NotTextError(RejectionReason.IMPORT_FAILED, kind).rejection(
            f"python:{name}"
        )
    seen: set[int] = set()
    top_level = package.partition(".")[0]
    for name in sorted(modules, key=lambda module: (module.count("."), module)):
        for bare_name, value in _named_objects(modules[name]):
            qualified_name = f"{name}.{bare_name}"
            try:
                is_new = id(value) not in seen and _is_public(value, top_level)
                documents = list(_read_public(value, qualified_name)) if is_new else []
            except Exception as error:  # noqa: BLE001 - a proxy may raise whatever it is asked
                kind = type(error).__name__
                yield NotTextError(RejectionReason.IMPORT_FAILED, kind).rejection(
                    f"python:{qualified_name}"
                )
                continue
            if is_new:
                seen.add(id(value))
                yield from documents


def _read_public(value: object, qualified_name: str) -> Iterator[Document]:
    if not inspect.isclass(value):
        yield from _read_object(value, qualified_name, "function")
        return
    yield from _read_object(value, qualified_name, "class")
    for method, member in sorted(vars(value).items()):
        plain: object = getattr(member, "__func__", member)
        if not method.startswith("_") and inspect.isroutine(plain):
            yield from _read_object(plain, f"{qualified_name}.{method}", "method")


def _is_installed(package: str) -> bool:
    try:
        with _quiet():
            return importlib.util.find_spec(package) is not None
    except (ImportError, ValueError):
        return False
    except (Exception, SystemExit):  # noqa: BLE001 - of a package above it; importing it tells
        return True


def _import_tree(
    name: str, modules: dict[str, ModuleType], failures: dict[str, str]
) -> None:
    """Import a module and all public modules below it.

    Importing third-party code may raise anything: this is the boundary where that becomes a count.
    """
    try:
        with _telling_interrupts():
            module = importlib.import_module(name)
    except _UserInterrupt:
        raise KeyboardInterrupt from None
    except BaseException as error:  # noqa: BLE001 - see the docstring; pytest's `Skipped` is one
        lacks = error.name if isinstance(error, ModuleNotFoundError) else None
        failures[name] = (
            f"{type(error).__name__}{f': no module {lacks!r}' if lacks else ''}"
        )
        return
    modules[name] = module
    # A module's own `__getattr__` may raise anything, so its attributes are not asked for.
    for info in pkgutil.iter_modules(vars(module).get("__path__", [])):
        is_test = info.name in _SKIPPED_MODULES or info.name.startswith("test_")
        if not info.name.startswith("_") and not is_test:
            _import_tree(f"{name}.{info.name}", modules, failures)


def _named_objects(module: ModuleType) -> Iterator[tuple[str, object]]:
    """Yield the public names of a module with their objects."""
    namespace = vars(module)
    declared = namespace.get("__all__")
    for name in sorted(
        {str(name) for name in (namespace if declared is None else declared)}
    ):
        if name in namespace and not name.startswith("_"):
            yield name, namespace[name]


def _is_public(value: object, top_level: str) -> bool:
    """Tell whether something is a function or class that a package defines itself."""
    if not callable(value):
        return False
    home = getattr(value, "__module__", None) or top_level
    return str(home).partition(".")[0] == top_level


def _read_object(
    value: object, qualified_name: str, form: ApiForm
) -> Iterator[Document]:
    docstring = getattr(value, "__doc__", None)
    if not isinstance(docstring, str) or len(docstring) < _MIN_DOCSTRING_CHARS:
        return
    entry = read_docstring(docstring, qualified_name=qualified_name, form=form)
    yield Document(
        title=qualified_name,
        text=entry.rendered(),
        source=f"python:{qualified_name}",
        kind="api",
    )


class _UserInterrupt(BaseException):
    """An interrupt that came from outside."""


@contextlib.contextmanager
def _telling_interrupts() -> Generator[None]:
    """Tell an interrupt of the user's from a `KeyboardInterrupt` that a module raises."""
    usual = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(usual):
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        try:
            usual(number, frame)
        except KeyboardInterrupt:
            raise _UserInterrupt from None

    signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)


@contextlib.contextmanager
def _quiet() -> Generator[None]:
    """Keep deprecation warnings and banners of imported modules off the terminal."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        yield


def _places(layout: str) -> dict[str, str]:
    parts: dict[str, list[str]] = read_table("docstrings")[layout]
    return {name: part for part, names in parts.items() for name in names}


_SECTIONS: Final = _places("google")
_FIELDS: Final = _places("sphinx")
_PATTERNS: Final = patterns(read_table("patterns")["docstrings"])
_FIELD = re.compile(rf"^:({'|'.join(_FIELDS)})(?:\s+([^:]+))?:\s*(.*)$")
_NAMES = r"(?:\\?\*){0,2}[A-Za-z_]\w*"
_PARAMETER = re.compile(
    rf"^(?P<names>{_NAMES}(?:\s*[,/]\s*{_NAMES})*)\s*(?:\((?P<kind>.*?)\))?\s*:(?:\s+(?P<body>.*))?$"
)

_NOT_A_NAME: Final = frozenset(
    {"optional", "default", "deprecated", "None", "True", "False"}
)


def read_docstring(docstring: str, *, qualified_name: str, form: ApiForm) -> ApiEntry:
    """Read a docstring; parts that it lacks, or has in another layout, are empty."""
    text = inspect.cleandoc(docstring.expandtabs())
    bare = ApiEntry(qualified_name=qualified_name, form=form)
    entry = _numpydoc_entry(text, bare)
    if entry.parameters or entry.returns or entry.yields:
        return entry
    return _fields_entry(text.splitlines(), bare) or entry


def _numpydoc_entry(text: str, bare: ApiEntry) -> ApiEntry:
    marks = list(_PATTERNS["numpy_heading"].finditer(text))
    ends = [*(mark.start() for mark in marks), len(text)]
    sections = {"summary": text[: ends[0]]}
    for mark, end in zip(marks, ends[1:], strict=True):
        sections.setdefault(mark[1].strip().lower(), text[mark.end() : end].strip("\n"))
    notes = "\n\n".join(
        rest_to_prose(sections.get(name, "")) for name in ("warnings", "notes")
    )
    summary = rest_to_prose(sections["summary"]).split("\n\n")
    return bare.model_copy(
        update={
            "summary": tuple(
                p for p in summary if p and not _PATTERNS["signature"].match(p)
            ),
            "parameters": tuple(_numpydoc_parameters(sections.get("parameters", ""))),
            "returns": tuple(_numpydoc_items(sections.get("returns", ""))),
            "yields": tuple(_numpydoc_items(sections.get("yields", ""))),
            "raises": tuple(_numpydoc_items(sections.get("raises", ""))),
            "notes": tuple(p for p in notes[:6000].split("\n\n") if p),
        }
    )


def _numpydoc_parameters(section: str) -> Iterator[ApiItem]:
    """Yield one item per name: `x, y : array_like` gives two."""
    seen = set(_NOT_A_NAME)
    for item in _numpydoc_items(section):
        for raw in item.name.split(","):
            name = raw.strip().lstrip("*").strip()
            if name not in seen and _PATTERNS["name"].fullmatch(name):
                seen.add(name)
                yield item.model_copy(update={"name": name})


def _numpydoc_items(section: str) -> Iterator[ApiItem]:
    for match, below in _items(section, _PATTERNS["numpy_item"]):
        item = _item(
            match["name"] or match["alone"], match["kind"] or "", "\n".join(below)
        )
        if item.name:
            yield item


def _items(
    section: str, pattern: re.Pattern[str]
) -> list[tuple[re.Match[str], list[str]]]:
    """Return each line that begins an item, with the lines below it."""
    items: list[tuple[re.Match[str], list[str]]] = []
    for line in section.splitlines():
        if match := pattern.match(line):
            items.append((match, []))
        elif items:
            _, lines_below = items[-1]
            lines_below.append(line)
    return items


class _Block(NamedTuple):
    """Part of a docstring with sections or fields."""

    place: str
    """The part of the entry that it belongs to."""
    argument: str
    """Argument of a field, such as the name of a parameter."""
    lines: list[str]


def _fields_entry(lines: list[str], bare: ApiEntry) -> ApiEntry | None:
    """Read a docstring with Google sections or Sphinx fields; None where it has neither."""
    is_sphinx = any(map(_FIELD.match, lines))
    parts: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
    above = [] if is_sphinx else [""]  # a first line is dedented alone
    for block in _blocks(
        lines, _field if is_sphinx else _section, after_blank=is_sphinx
    ):
        text = inspect.cleandoc("\n".join(above + block.lines))
        parts[block.place].append((block.argument, text))
    if parts.keys().isdisjoint({"parameters", "returns", "yields", "raises"}):
        return None
    items = _sphinx_items(parts) if is_sphinx else _google_items(parts)
    # A parameter that is named twice keeps its first place.
    parameters = {item.name: item for item in reversed(items["parameters"])}
    return bare.model_copy(
        update={
            "summary": _paragraphs(parts["summary"]),
            "parameters": tuple(parameters.values())[::-1],
            "returns": tuple(items["returns"]),
            "yields": tuple(items["yields"]),
            "raises": tuple(items["raises"]),
            "notes": _paragraphs(parts["notes"]),
        }
    )


def _sphinx_items(
    parts: Mapping[str, Sequence[tuple[str, str]]],
) -> dict[str, list[ApiItem]]:
    """Return the items of a docstring with Sphinx fields, by part of the entry."""
    kinds = {name.lstrip("\\*"): kind for name, kind in parts.get("type", ())}
    parameters: list[ApiItem] = []
    for argument, text in parts.get("parameters", ()):
        kind, _, name = argument.rpartition(" ")
        kind = kind or kinds.get(name.lstrip("\\*"), "")
        parameters.extend(_named(name, kind, text))
    raises: list[ApiItem] = []
    for name, text in parts.get("raises", ()):
        raises.extend(_named(name, "", text))
    result_kind = next((kind for _, kind in parts.get("rtype", ())), "")
    returned = list(parts.get("returns", ()))
    yielded = parts.get("yields", ())
    if not returned and result_kind and not yielded:
        returned = [("", "")]
    return {
        "parameters": parameters,
        "raises": raises,
        "returns": [_item("", result_kind, text) for _, text in returned],
        "yields": [_item("", result_kind, text) for _, text in yielded],
    }


def _google_items(
    parts: Mapping[str, Sequence[tuple[str, str]]],
) -> dict[str, list[ApiItem]]:
    """Return the items of a docstring with Google sections, by part of the entry."""
    items: dict[str, list[ApiItem]] = defaultdict(list)
    for place, pattern in (("parameters", _PARAMETER), ("raises", _PATTERNS["error"])):
        for _, text in parts.get(place, ()):
            items[place].extend(_listed(text, pattern))
    for place in ("returns", "yields"):
        for _, text in parts.get(place, ()):
            if typed := _PATTERNS["typed"].match(text):
                items[place].append(_item(typed[1], "", typed[2]))
            else:
                items[place].append(_item("", "", text))
    return items


def _paragraphs(blocks: list[tuple[str, str]]) -> tuple[str, ...]:
    return tuple(
        part for _, text in blocks for part in rest_to_prose(text).split("\n\n") if part
    )


def _blocks(
    lines: list[str],
    begins: Callable[[list[str], int], _Block | None],
    *,
    after_blank: bool,
) -> list[_Block]:
    """Cut at sections or fields; text at the margin, maybe after a blank line, ends one."""
    blocks = [_Block("summary", "", [])]
    for number, line in enumerate(lines):
        if (block := begins(lines, number)) is not None:
            blocks.append(block)
        elif (
            blocks[-1].place != "summary"
            and line[:1].strip()
            and not (after_blank and lines[number - 1].strip())
        ):
            blocks.append(_Block("summary", "", [line]))
        else:
            blocks[-1].lines.append(line)
    return blocks


def _section(lines: list[str], number: int) -> _Block | None:
    """Begin a section of Google's, where an indented line follows its heading."""
    match = _PATTERNS["heading"].match(lines[number])
    place = _SECTIONS.get(match[1].lower()) if match else None
    if place is None:
        return None
    body = next((line for line in lines[number + 1 :] if line.strip()), "")
    return _Block(place, "", []) if body[:1].isspace() else None


def _field(lines: list[str], number: int) -> _Block | None:
    match = _FIELD.match(lines[number])
    return match and _Block(_FIELDS[match[1]], (match[2] or "").strip(), [match[3]])


def _listed(text: str, pattern: re.Pattern[str]) -> Iterator[ApiItem]:
    for match, below in _items(text, pattern):
        body = "\n".join([match["body"] or "", *below])
        yield from _named(match["names"], match["kind"] or "", body)


def _named(names: str, kind: str, text: str) -> Iterator[ApiItem]:
    for name in re.split(r"[,/]", names):
        if bare := name.strip().lstrip("\\*"):
            yield _item(bare, kind, text)


def _item(name: str, kind: str, text: str) -> ApiItem:
    return ApiItem(
        name=inline_to_prose(name),
        kind=inline_to_prose(kind),
        description=" ".join(rest_to_prose(inspect.cleandoc(text)).split()),
    )
