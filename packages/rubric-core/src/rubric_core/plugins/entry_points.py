"""Judges, trainers and responders that installed packages offer through entry points.

A package adds a judge with `[project.entry-points."rubric.judges"] NAME = "module:factory"`, where
`factory(options)` returns a `Judge`; and a trainer likewise under `rubric.trainers`, where the
target is a class, or a function of no arguments, that returns a `TrainerBackend`; and a responder
under `rubric.responders`, where the target is `factory(options)` that returns a `Responder`. Kinds
of a setting, such as advantage estimators, are found by `rubric_core.plugins.variants`, and the
sandboxes of code by `rubric_judge.checks.sandboxes`.
"""

import sys
from collections.abc import Callable, Mapping
from functools import lru_cache
from importlib.metadata import EntryPoints, entry_points
from pathlib import Path
from typing import Protocol, TypeVar, cast, runtime_checkable

from rubric_core.configuration import may_be_key, nearest_key
from rubric_core.errors import PluginError, RubricError
from rubric_core.judgement.result import JudgeResult
from rubric_core.plugins.responding import ResponderFactory
from rubric_core.schema.views import JudgeView


@runtime_checkable
class Judge(Protocol):
    """Scores responses against rubrics."""

    @property
    def name(self) -> str:
        """Identifier of the judge and its version in results and reports."""
        ...

    async def judge(self, view: JudgeView) -> JudgeResult:
        """Score one response.

        Never raises for what a model, a network or a response does: that is an `invalid` or
        `unavailable` result. Cancellation passes through.
        """
        ...


class JudgeFactory(Protocol):
    """Makes a judge from the options of a configuration file; the target of an entry point."""

    def __call__(self, options: Mapping[str, object], /) -> Judge:
        """Make the judge, or raise ConfigError for options that do not fit."""
        ...


@runtime_checkable
class TrainerBackend(Protocol):
    """Trains a policy from a configuration."""

    @property
    def name(self) -> str:
        """Identifier of the backend in configurations and run folders."""
        ...

    def plan(self, config: Mapping[str, object]) -> str:
        """Return a full description of what `run` would do, without a GPU."""
        ...

    def run(self, config: Mapping[str, object], *, resume: bool = False) -> Path:
        """Train, and return the run folder; `resume` continues one that was cut off."""
        ...


_KindT = TypeVar("_KindT")

JUDGES = "rubric.judges"
TRAINERS = "rubric.trainers"
RESPONDERS = "rubric.responders"


def judge_names() -> tuple[str, ...]:
    """Return the names of all installed judges, sorted, without loading them."""
    return plugin_names(JUDGES)


def trainer_names() -> tuple[str, ...]:
    """Return the names of all installed trainers, sorted, without loading them."""
    return plugin_names(TRAINERS)


def responder_names() -> tuple[str, ...]:
    """Return the names of all installed responders, sorted, without loading them."""
    return plugin_names(RESPONDERS)


def plugin_names(group: str) -> tuple[str, ...]:
    """Return the names in one group of entry points, sorted, without loading them."""
    return tuple(sorted(_installed(group).names))


def find_judge(name: str) -> JudgeFactory:
    """Return the factory of an installed judge.

    Raises:
        PluginError: no judge or several have this name, or its module does not load. The factory
            raises it too, for any error of the package's own.
    """
    return cast("JudgeFactory", find_factory(name, group=JUDGES))


def find_trainer(name: str) -> TrainerBackend:
    """Return an installed trainer backend.

    Raises:
        PluginError: no trainer or several have this name, its module does not load, or it makes
            something that is not a `TrainerBackend`.
    """
    backend = find_factory(name, group=TRAINERS)()
    if not isinstance(backend, TrainerBackend):
        raise PluginError(
            f"{name!r} in {TRAINERS!r} makes a {type(backend).__name__}, not a TrainerBackend"
        )
    return backend


def find_responder(name: str) -> ResponderFactory:
    """Return the factory of an installed responder.

    Raises:
        PluginError: no responder or several have this name, or its module does not load. The
            factory raises it too, for any error of the package's own.
    """
    return cast("ResponderFactory", find_factory(name, group=RESPONDERS))


def find_class(name: str, *, group: str, kind: type[_KindT]) -> type[_KindT]:
    """Return an installed subclass of `kind`.

    Raises:
        PluginError: none or several have this name, its module does not load, or it is no such
            class.
    """
    target = _loaded(name, group=group)
    if not (isinstance(target, type) and issubclass(target, kind)):
        target_name = _name_of(cast("object", target))
        raise PluginError(
            f"{name!r} in {group!r} is {target_name}, not a subclass of {kind.__name__}"
        )
    return target


def find_factory(name: str, *, group: str) -> Callable[..., object]:
    """Return what makes the object that an entry point adds.

    Raises:
        PluginError: none or several have this name, its module does not load, or it cannot be
            called. The factory raises it too, for any error of the package's own.
    """
    target = _loaded(name, group=group)
    if not callable(target):
        raise PluginError(
            f"{name!r} in {group!r} is {_name_of(target)}, which cannot be called"
        )

    def build(*options: object) -> object:
        try:
            return target(*options)
        except RubricError:
            raise
        # A plugin is third-party code: any error is reported as the plugin's.
        except Exception as error:
            # Our own messages hold no options, but a plugin's may repeat a key among them.
            reason = _first_line(error)
            if may_be_key(reason):
                reason = type(error).__name__
            raise PluginError(
                f"{name!r} in {group!r} could not be built from its options: {reason}"
            ) from error

    return build


def _first_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".partition("\n")[0]


def _loaded(name: str, *, group: str) -> object:
    points = _installed(group).select(name=name)
    if not points:
        known = plugin_names(group)
        close = nearest_key(name, known)
        near = f"did you mean {close!r}? " if close else ""
        raise PluginError(
            f"nothing called {name!r} is installed under {group!r}; {near}installed: "
            f"{', '.join(known) or 'none'}"
        )
    if len(points) > 1:
        owners = [entry.dist.name if entry.dist else "?" for entry in points]
        listed = ", ".join(sorted(owners))
        raise PluginError(
            f"{name!r} in {group!r} is in several packages ({listed}): uninstall all but one"
        )
    (entry,) = points
    try:
        return entry.load()
    # A plugin is third-party code: it may raise anything, or exit, when it is imported.
    except (Exception, SystemExit) as error:
        is_expected = isinstance(error, ImportError | AttributeError)
        reason = str(error) if is_expected else _first_line(error)
        raise PluginError(
            f"{name!r} in {group!r} points to {entry.value!r}, which does not load: {reason}"
        ) from error


def _installed(group: str) -> EntryPoints:
    # Cached by the folders' times: to read the entry points of a few hundred packages takes longer
    # than the rest of a configuration.
    folders = [folder for folder in map(Path, sys.path) if folder.exists()]
    changed = tuple((str(folder), folder.stat().st_mtime_ns) for folder in folders)
    return _read(changed, group)


@lru_cache(maxsize=16)
def _read(_changed: tuple[tuple[str, int], ...], group: str) -> EntryPoints:
    return entry_points(group=group)


def _name_of(target: object) -> str:
    if isinstance(target, type):
        return target.__name__
    return f"a {type(target).__name__}"
