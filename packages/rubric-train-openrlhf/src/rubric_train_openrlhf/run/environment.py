"""What a run was made with: versions, revision, machine, seed, and digests of its model."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Final

from rubric_core.files import open_file

_BLOCK_BYTES: Final = 1 << 20
_BLOCKS: Final = 16
"""Of a file with more, as many are read, spread evenly, the first and the last among them."""
_COUNTED: Final = frozenset(
    {".bin", ".jinja", ".json", ".model", ".safetensors", ".tiktoken", ".txt"}
)


def model_digests(folder: Path) -> dict[str, str]:
    """Digest each file of a model folder: weights, configuration, tokenizer, templates.

    Returns:
        Digests by name, in hexadecimal. Files in folders below it are not looked at.

    Raises:
        OSError: a file cannot be read.
    """
    return {
        path.name: _digest(path)
        for path in sorted(folder.iterdir())
        if path.suffix in _COUNTED and not path.name.startswith(".") and path.is_file()
    }


def first_changed(folder: Path, before: Mapping[str, str]) -> str | None:
    """Name the first file of those that were digested that is missing or another.

    Raises:
        OSError: a file cannot be read.
    """
    now = model_digests(folder)
    return next((name for name, digest in sorted(before.items()) if now.get(name) != digest), None)


def _digest(path: Path) -> str:
    size = path.stat().st_size
    digest = hashlib.sha256(str(size).encode())
    with open_file(path) as file:
        if size <= _BLOCKS * _BLOCK_BYTES:
            digest.update(file.read())
        else:
            for block in range(_BLOCKS):
                file.seek((size - _BLOCK_BYTES) * block // (_BLOCKS - 1))
                digest.update(file.read(_BLOCK_BYTES))
    return digest.hexdigest()


_DISTRIBUTIONS: Final = (
    *("rubric-core", "rubric-judge", "rubric-train-openrlhf"),
    *("torch", "transformers", "tokenizers", "numpy", "pydantic"),
)


def describe_environment(
    *,
    seed: int,
    config_text: str,
    tasks_sha256: Mapping[str, Mapping[str, str]],
    model_files: Mapping[str, str],
) -> str:
    """Lay out for a reader what another machine would need to repeat the run.

    Args:
        seed: of the run.
        config_text: its resolved configuration.
        tasks_sha256: of each task file, by part.
        model_files: digests of the model that it starts from, where a resumed run reads it again.
    """
    # Seconds of import, which reading a run folder does without.
    import torch

    environment = {
        "python": sys.version.split()[0],
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
        "torch_threads": torch.get_num_threads(),
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
        "cuda": torch.version.cuda,
        "versions": {name: _version(name) for name in _DISTRIBUTIONS},
        "git_sha": git_sha(),
        "seed": seed,
        "config_sha256": hashlib.sha256(config_text.encode()).hexdigest(),
        "tasks_sha256": {name: dict(parts) for name, parts in tasks_sha256.items()},
        "model_files": dict(model_files),
    }
    return json.dumps(environment, indent=2, sort_keys=True) + "\n"


def git_sha() -> str | None:
    """Revision of the repository that this package is run from, None outside of one."""
    try:
        done = subprocess.run(
            ("git", "rev-parse", "HEAD"),  # noqa: S607  # whichever git the user has
            cwd=Path(__file__).parent,
            capture_output=True,
            check=True,
            text=True,
            timeout=10,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
