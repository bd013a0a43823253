"""The process that compares expressions: a JSON pair in a line, `1` or `0` back."""

from __future__ import annotations

import json
import logging
import sys
from importlib import import_module
from typing import Any, Final

_MEMORY_BYTES: Final = 4 * 2**30


def main() -> None:
    """Answer until the input ends."""
    _limit_memory()
    try:
        math_verify = import_module("math_verify")
    except ImportError:
        print("missing", flush=True)  # noqa: T201  # the protocol
        return
    logging.disable()
    print("ready", flush=True)  # noqa: T201
    for line in sys.stdin:
        one, other = json.loads(line)
        is_same = _is_same(math_verify, one, other)
        print("1" if is_same else "0", flush=True)  # noqa: T201


def _is_same(math_verify: Any, one: str, other: str) -> bool:  # noqa: ANN401  # has no types
    """Whoever asks limits the time: it can end this process, and a signal cannot end a power.

    math-verify takes an interval for an inequality and not the other way about: each is the target
    once.
    """
    parsed = _parse(math_verify, one), _parse(math_verify, other)
    try:
        return any(
            math_verify.verify(target, answer, timeout_seconds=None)
            for target, answer in (parsed, reversed(parsed))
        )
    except (ArithmeticError, TypeError, ValueError, AttributeError, RecursionError, MemoryError):
        return False


def _parse(math_verify: Any, text: str) -> Any:  # noqa: ANN401
    """Parse a whole expression, boxed so that nothing of it is passed over."""
    return math_verify.parse(f"$\\boxed{{{text}}}$", parsing_timeout=None)


def _limit_memory() -> None:
    try:
        resource = import_module("resource")
    except ImportError:  # Windows
        return
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = _MEMORY_BYTES if hard == resource.RLIM_INFINITY else min(_MEMORY_BYTES, hard)
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))


if __name__ == "__main__":
    main()
