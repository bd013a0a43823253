"""What makes the processes of a run slow to start on a machine like this one."""

from __future__ import annotations

import sys
from importlib.util import cache_from_source, find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rubric_train_openrlhf.cluster.rehearse.finding import passed, warning

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rubric_train_openrlhf.cluster.rehearse.finding import Finding
    from rubric_train_openrlhf.cluster.rehearse.subject import Subject

_LARGE: Final = ("torch", "transformers", "ray", "deepspeed", "vllm", "openrlhf")
"""What a process of a run spends its start on."""
_SWITCH: Final = "PYTHONDONTWRITEBYTECODE"


def check_bytecode(subject: Subject) -> Iterator[Finding]:
    """Whether what every process imports is compiled once, or by each of them."""
    del subject
    plain = [name for name in _LARGE if _is_uncompiled(name)]
    if not plain or not sys.dont_write_bytecode:
        yield passed("what the processes import is compiled once for all of them")
        return
    yield warning(
        f"{_SWITCH} is set and these packages are not compiled: {', '.join(plain)}; every process "
        "of a run compiles what it imports, at every start",
        where=_SWITCH,
        remedy="unset it, or compile once: python -m compileall, or UV_COMPILE_BYTECODE=1 with uv",
    )


def _is_uncompiled(name: str) -> bool:
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        return False
    return not Path(cache_from_source(spec.origin)).exists()
