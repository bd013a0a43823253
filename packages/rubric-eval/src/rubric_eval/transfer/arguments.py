"""The few arguments of lm-eval that the pass-through must know; all others are left as they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

_LONG: Final = {
    "-L": "--limit",
    "-C": "--config",
    "-M": "--model",
    "-a": "--model_args",
    "-c": "--use_cache",
}
_TAKEN: Final = ("--config", "--include_path", "--use_cache")
_READ: Final = ("--limit", "--model", "--model_args")


@dataclass(frozen=True)
class Arguments:
    """Arguments of `lm-eval run`."""

    rest: tuple[str, ...]
    """All but those that the pass-through writes anew."""

    config: str | None
    include_path: tuple[str, ...]
    use_cache: str | None
    limit: str | None
    model: str | None
    model_args: tuple[str, ...]


def read_arguments(arguments: Sequence[str]) -> Arguments:
    """Find the arguments that matter; the word `run` in front may be left out, as lm-eval has it.

    Args:
        arguments: of `lm-eval run`.
    """
    words = list(
        arguments[1:] if arguments[:1] == ["run"] or arguments[:1] == ("run",) else arguments
    )
    found: dict[str, list[str]] = {name: [] for name in (*_TAKEN, *_READ)}
    rest: list[str] = []
    name = ""
    for word in words:
        is_flag = word.startswith("-") and not _is_number(word)
        if is_flag:
            flag, equals, value = word.partition("=")
            name = _name(flag)
            if name in found and equals:
                found[name].append(value)
        elif name in found:
            found[name].append(word)
        if name not in _TAKEN:
            rest.append(word)
    one = {key: values[-1] if values else None for key, values in found.items()}
    return Arguments(
        rest=tuple(rest),
        config=one["--config"],
        include_path=tuple(found["--include_path"]),
        use_cache=one["--use_cache"],
        limit=one["--limit"],
        model=one["--model"],
        model_args=tuple(found["--model_args"]),
    )


def _name(flag: str) -> str:
    """Return the full name of a flag, which argparse lets one shorten."""
    flag = _LONG.get(flag, flag)
    known = (*_TAKEN, *_READ)
    if flag in known or not flag.startswith("--"):
        return flag
    close = [one for one in known if one.startswith(flag)]
    return close[0] if len(close) == 1 else flag


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
