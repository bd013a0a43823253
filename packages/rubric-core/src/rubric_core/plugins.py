"""Judges, trainers and responders that installed packages offer through entry points.

A package adds a judge with `[project.entry-points."rubric.judges"] NAME = "module:factory"`, where
`factory(options)` returns a `Judge`; and a trainer likewise under `rubric.trainers`, where the
target is a class, or a function of no arguments, that returns a `TrainerBackend`; and a responder
under `rubric.responders`, where the target is `factory(options)` that returns a `Responder`.
"""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Final, cast

from rubric_core.configuration import nearest_key
from rubric_core.errors import PluginError
from rubric_core.protocols import TrainerBackend

if TYPE_CHECKING:
    from collections.abc import Callable

    from rubric_core.protocols import JudgeFactory
    from rubric_core.responding import ResponderFactory

JUDGES: Final = "rubric.judges"
TRAINERS: Final = "rubric.trainers"
RESPONDERS: Final = "rubric.responders"


def judge_names() -> tuple[str, ...]:
    """Return the names of all installed judges, sorted, without loading them."""
    return tuple(sorted(entry_points(group=JUDGES).names))


def trainer_names() -> tuple[str, ...]:
    """Return the names of all installed trainers, sorted, without loading them."""
    return tuple(sorted(entry_points(group=TRAINERS).names))


def responder_names() -> tuple[str, ...]:
    """Return the names of all installed responders, sorted, without loading them."""
    return tuple(sorted(entry_points(group=RESPONDERS).names))


def find_judge(name: str) -> JudgeFactory:
    """Return the factory of an installed judge.

    Raises:
        PluginError: no judge or several have this name, or its module does not load.
    """
    return cast("JudgeFactory", _callable(name, group=JUDGES))


def find_trainer(name: str) -> TrainerBackend:
    """Return an installed trainer backend.

    Raises:
        PluginError: no trainer or several have this name, its module does not load, or it makes
            something that is not a `TrainerBackend`.
    """
    backend = _callable(name, group=TRAINERS)()
    if not isinstance(backend, TrainerBackend):
        raise PluginError(
            f"{name!r} in {TRAINERS!r} makes a {type(backend).__name__}, not a TrainerBackend"
        )
    return backend


def find_responder(name: str) -> ResponderFactory:
    """Return the factory of an installed responder.

    Raises:
        PluginError: no responder or several have this name, or its module does not load.
    """
    return cast("ResponderFactory", _callable(name, group=RESPONDERS))


def _callable(name: str, *, group: str) -> Callable[..., object]:
    found = entry_points(group=group, name=name)
    if not found:
        known = sorted(entry_points(group=group).names)
        close = nearest_key(name, known)
        remedy = f"did you mean {close!r}?" if close else f"installed: {', '.join(known) or 'none'}"
        raise PluginError(f"nothing called {name!r} is installed under {group!r}; {remedy}")
    if len(found) > 1:
        owners = ", ".join(sorted(entry.dist.name if entry.dist else "?" for entry in found))
        raise PluginError(
            f"{name!r} in {group!r} is in several packages ({owners}): uninstall all but one"
        )
    (entry,) = found
    try:
        target = entry.load()
    except (ImportError, AttributeError) as error:
        raise PluginError(
            f"{name!r} in {group!r} points to {entry.value!r}, which does not load: {error}"
        ) from error
    if not callable(target):
        raise PluginError(
            f"{name!r} in {group!r} points to {entry.value!r}, which cannot be called"
        )
    return target
