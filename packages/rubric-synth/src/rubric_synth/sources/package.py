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
import signal
import threading
import warnings
from collections.abc import Generator, Iterator
from types import FrameType, ModuleType

from rubric_synth.document import ApiForm, Document, Found, RejectionReason
from rubric_synth.errors import SourceError
from rubric_synth.sources.docstrings import read_docstring
from rubric_synth.sources.raw_text import NotTextError

_SKIPPED_MODULES = frozenset({"tests", "test", "testsuite", "conftest", "setup"})
_MIN_DOCSTRING_CHARS = 40


def read_package(package: str) -> Found:
    """Yield one document per public documented function, class and method of a package.

    Raises:
        SourceError: The package is not installed or cannot be imported.
    """
    source = f"python:{package}"
    is_name = all(part.isidentifier() for part in package.split("."))
    if not is_name or not _is_installed(package):
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
    package: str,
    modules: dict[str, ModuleType],
    failures: dict[str, str],
) -> Found:
    for name, kind in sorted(failures.items()):
        error = NotTextError(RejectionReason.IMPORT_FAILED, kind)
        yield error.rejection(f"python:{name}")
    seen: set[int] = set()
    top_level = package.partition(".")[0]
    for name in sorted(modules, key=lambda module: (module.count("."), module)):
        for bare_name, value in _named_objects(modules[name]):
            if id(value) in seen:
                continue
            qualified_name = f"{name}.{bare_name}"
            try:
                if not _is_public(value, top_level):
                    continue
                documents = list(_read_public(value, qualified_name))
            except Exception as error:  # noqa: BLE001 - a proxy may raise whatever it is asked
                kind = type(error).__name__
                failure = NotTextError(RejectionReason.IMPORT_FAILED, kind)
                yield failure.rejection(f"python:{qualified_name}")
                continue
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
    name: str,
    modules: dict[str, ModuleType],
    failures: dict[str, str],
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
        failures[name] = type(error).__name__
        if isinstance(error, ModuleNotFoundError) and error.name:
            failures[name] += f": no module {error.name!r}"
        return
    modules[name] = module
    # A module's own `__getattr__` may raise anything, so its attributes are not asked for.
    folders = vars(module).get("__path__", [])
    for info in pkgutil.iter_modules(folders):
        is_test = info.name in _SKIPPED_MODULES or info.name.startswith("test_")
        if not info.name.startswith("_") and not is_test:
            _import_tree(f"{name}.{info.name}", modules, failures)


def _named_objects(module: ModuleType) -> Iterator[tuple[str, object]]:
    """Yield the public names of a module with their objects."""
    namespace = vars(module)
    declared = namespace.get("__all__")
    if declared is None:
        declared = namespace
    for name in sorted(set(map(str, declared))):
        if name in namespace and not name.startswith("_"):
            yield name, namespace[name]


def _is_public(value: object, top_level: str) -> bool:
    """Tell whether something is a function or class that a package defines itself."""
    if not callable(value):
        return False
    home = getattr(value, "__module__", None) or top_level
    return str(home).partition(".")[0] == top_level


def _read_object(
    value: object,
    qualified_name: str,
    form: ApiForm,
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
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or not callable(usual):
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
