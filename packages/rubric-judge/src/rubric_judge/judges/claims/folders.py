"""Model folders, given by path or by the package that ships them, and checked before use."""

import hashlib
import json
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import cast

from rubric_core.files import file_sha256, read_file
from rubric_judge.errors import JudgeSetupError

_CONFIG = "config.json"
_WEIGHTS = "*.safetensors"
_NEEDED = {
    _CONFIG: (_CONFIG,),
    _WEIGHTS: (_WEIGHTS,),
    "tokenizer.json": ("tokenizer.json", "vocab.txt", "vocab.json", "*.model"),
}
"""Files of a folder, each with the names that it may have."""
_HASHED = (
    _CONFIG,
    _WEIGHTS,
    "tokenizer*",
    "vocab*",
    "merges.txt",
    "1_Pooling/*.json",
)


def model_folder(named: str, *, key: str) -> Path:
    """Find the folder of a model.

    Args:
        named: a folder, or an installed package that ships one; no code of the package is run.
        key: the key of the configuration that names it.

    Returns:
        A folder with config.json, weights as safetensors and a tokenizer.

    Raises:
        JudgeSetupError: there is none, or something is missing in it.
    """
    folder = Path(named)
    if not folder.is_dir():
        folder = _shipped(named, key=key)
    for shown, names in _NEEDED.items():
        if not any(path.is_file() for name in names for path in folder.glob(name)):
            raise JudgeSetupError(
                f"{key}: {folder} holds no {shown}: give a folder as `save_pretrained` writes "
                "it, with config.json, *.safetensors and a tokenizer (weights in another form "
                "may run code when they are read, and are not)"
            )
    return folder


def _shipped(named: str, *, key: str) -> Path:
    try:
        files = distribution(named).files or []
    except (PackageNotFoundError, ValueError):
        raise JudgeSetupError(
            f"{key}: {named!r} is no folder, and no installed package of this name: give a "
            "folder with config.json, *.safetensors and a tokenizer, or install the package"
        ) from None
    weights = {file.parent for file in files if file.suffix == ".safetensors"}
    configs = [
        file for file in files if file.name == _CONFIG and file.parent in weights
    ]
    if len(configs) != 1:
        raise JudgeSetupError(
            f"{key}: the package {named!r} ships {len(configs)} folders with config.json and "
            "*.safetensors, and one is needed: give the folder itself"
        )
    return Path(str(configs[0].locate())).parent


def model_settings(folder: Path, *, key: str) -> Mapping[str, object]:
    """Read a model's config.json.

    Raises:
        JudgeSetupError: it is no JSON object.
    """
    try:
        settings: object = json.loads(read_file(folder / _CONFIG))
    except (OSError, ValueError) as error:
        raise _unreadable(
            folder, key=key, problem=f"{_CONFIG}: {type(error).__name__}"
        ) from error
    if not isinstance(settings, dict):
        raise _unreadable(folder, key=key, problem=f"{_CONFIG} is no JSON object")
    return cast("dict[str, object]", settings)


def _unreadable(folder: Path, *, key: str, problem: str) -> JudgeSetupError:
    return JudgeSetupError(
        f"{key}: the model in {folder} cannot be read ({problem}): save or download it anew"
    )


def architecture(settings: Mapping[str, object]) -> str:
    """Return the class that a config.json names; "" where it names none."""
    names = settings.get("architectures")
    classes = cast("list[object]", names) if isinstance(names, list) else []
    return str(classes[0]) if classes else ""


def content_hash(folder: Path) -> str:
    """Return a hash of the files that decide a model's output, whatever folder they lie in."""
    digest = hashlib.sha256()
    matches = [path for name in _HASHED for path in folder.glob(name)]
    files = {path for path in matches if path.is_file()}
    for path in sorted(files):
        relative = path.relative_to(folder).as_posix()
        digest.update(f"{relative} {file_sha256(path)}\n".encode())
    return digest.hexdigest()
