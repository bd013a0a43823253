"""`python:PACKAGE`: the documentation of an installed package, read from its public docstrings.

Modules are imported, never executed as scripts; private modules, tests and command-line entry
modules are left alone. An object is read once, under the shortest public path that names it.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import inspect
import io
import pkgutil
import signal
import threading
import warnings
from collections.abc import Generator, Iterator
from types import FrameType, ModuleType
from typing import Final

from rubric_synth.document import ApiForm, Document, render_entry
from rubric_synth.errors import SourceError
from rubric_synth.rejection import Rejection, RejectionReason
from rubric_synth.sources.docstrings import read_docstring
from rubric_synth.sources.raw_text import NotTextError

_SKIPPED_MODULES: Final = frozenset({"tests", "test", "conftest", "setup"})
_MIN_DOCSTRING_CHARS: Final = 40


def read_package(package: str) -> Iterator[Document | Rejection]:
    """Yield one document per public documented function, class and method of a package.

    Raises:
        SourceError: The package is not installed or cannot be imported.
    """
    source = f"python:{package}"
    if not all(part.isidentifier() for part in package.split(".")) or not _is_installed(package):
        message = f"package {package!r} is not installed here; install it or correct the name"
        raise SourceError(message, source=source)
    modules: dict[str, ModuleType] = {}
    failures: dict[str, str] = {}
    with _quiet():
        _import_tree(package, modules, failures)
    if package not in modules:
        message = f"package {package!r} cannot be imported ({failures[package]}); repair it first"
        raise SourceError(message, source=source)
    return _read_modules(package, modules, failures)


def _read_modules(
    package: str, modules: dict[str, ModuleType], failures: dict[str, str]
) -> Iterator[Document | Rejection]:
    for name, kind in sorted(failures.items()):
        yield NotTextError(RejectionReason.IMPORT_FAILED, kind).rejection(f"python:{name}")
    seen: set[int] = set()
    top_level = package.partition(".")[0]
    for name in sorted(modules, key=lambda module: (module.count("."), module)):
        for bare_name, value in _public_objects(modules[name], top_level):
            if id(value) in seen:
                continue
            seen.add(id(value))
            qualified_name = f"{name}.{bare_name}"
            if inspect.isclass(value):
                yield from _read_object(value, qualified_name, "class")
                yield from _read_methods(value, qualified_name)
            else:
                yield from _read_object(value, qualified_name, "function")


def _is_installed(package: str) -> bool:
    try:
        with _quiet():
            return importlib.util.find_spec(package) is not None
    except (ImportError, ValueError):
        return False
    except (Exception, SystemExit):  # noqa: BLE001 - of a package above it; importing it tells
        return True


def _import_tree(name: str, modules: dict[str, ModuleType], failures: dict[str, str]) -> None:
    """Import a module and all public modules below it.

    Importing third-party code may raise anything: this is the boundary where that becomes a count.
    """
    try:
        with _telling_interrupts():
            module = importlib.import_module(name)
    except _UserInterrupt:
        raise KeyboardInterrupt from None
    except (Exception, SystemExit, KeyboardInterrupt) as error:  # noqa: BLE001 - see the docstring
        failures[name] = type(error).__name__
        return
    modules[name] = module
    for info in pkgutil.iter_modules(getattr(module, "__path__", [])):
        if not info.name.startswith("_") and info.name not in _SKIPPED_MODULES:
            _import_tree(f"{name}.{info.name}", modules, failures)


def _public_objects(module: ModuleType, top_level: str) -> Iterator[tuple[str, object]]:
    """Yield the public functions and classes that a module names and that its package defines."""
    namespace = vars(module)
    declared = namespace.get("__all__")
    for name in sorted({str(name) for name in (namespace if declared is None else declared)}):
        value = namespace.get(name)
        if callable(value) and not name.startswith("_"):
            home = getattr(value, "__module__", None) or top_level
            if str(home).partition(".")[0] == top_level:
                yield name, value


def _read_methods(cls: type, qualified_name: str) -> Iterator[Document]:
    for name, member in sorted(vars(cls).items()):
        plain: object = getattr(member, "__func__", member)
        if not name.startswith("_") and inspect.isroutine(plain):
            yield from _read_object(plain, f"{qualified_name}.{name}", "method")


def _read_object(value: object, qualified_name: str, form: ApiForm) -> Iterator[Document]:
    docstring = getattr(value, "__doc__", None)
    if not isinstance(docstring, str) or len(docstring) < _MIN_DOCSTRING_CHARS:
        return
    entry = read_docstring(docstring, qualified_name=qualified_name, form=form)
    yield Document(
        title=qualified_name,
        text=render_entry(entry),
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
