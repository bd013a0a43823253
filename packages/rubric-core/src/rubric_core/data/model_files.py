"""The identity of a model folder: folders are one model if every byte that counts is the same."""

import json
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Literal, cast

from pydantic import JsonValue

from rubric_core.errors import ConfigError
from rubric_core.files import file_sha256, read_file
from rubric_core.nearest import near

_WEIGHTS = frozenset({".bin", ".gguf", ".pt", ".pth", ".safetensors"})
_COUNTED = _WEIGHTS | {".jinja", ".json", ".model", ".py", ".tiktoken", ".txt"}
_OF_TRAINING = frozenset(
    {
        "optimizer.bin",
        "optimizer.pt",
        "scheduler.bin",
        "scheduler.pt",
        "trainer_state.pt",
        "training_args.bin",
    }
)
"""Files that lie beside the weights of a checkpoint and do not change an answer."""
_TEMPLATES = "additional_chat_templates"


def model_files(folder: Path) -> dict[str, JsonValue]:
    """Return the SHA-256 of each file of a model folder that may change an answer.

    Weights, configuration, tokenizer, chat templates and code; an adapter's base model too, where
    it is a folder. A file is read once in a process, unless its size or time changes.

    Args:
        folder: a folder in the Hugging Face layout.

    Returns:
        Digests by file name, in hexadecimal; under "base", those of an adapter's base model.

    Raises:
        ConfigError: there is no such folder, no weights in it, or a file that cannot be read.
    """
    return _model_files(folder, above=())


def _model_files(folder: Path, *, above: tuple[Path, ...]) -> dict[str, JsonValue]:
    """Return the digests of a folder; `above` are the adapters whose base it is.

    A base that is among them would lead back to itself, and is left out.
    """
    if not folder.is_dir():
        raise ConfigError(
            f"there is no model folder at {str(folder)!r}: give the path of one that holds "
            f"config.json, weights and a tokenizer{near(folder)}"
        )
    try:
        files = sorted(_counted(folder))
        digests: dict[str, JsonValue] = {
            path.relative_to(folder).as_posix(): _digest(path) for path in files
        }
        base = adapter_base(folder)
    except OSError as error:
        raise ConfigError(
            f"the model folder {str(folder)!r} cannot be read: {error.strerror or error}"
        ) from None
    if not any(path.suffix in _WEIGHTS for path in files):
        raise ConfigError(
            f"the model folder {str(folder)!r} holds no weights (*.safetensors or *.bin): copy the "
            "whole model, or give another folder"
        )
    if base is not None and base.resolve() not in above:
        digests["base"] = _model_files(base, above=(*above, folder.resolve()))
    return digests


def _counted(folder: Path) -> Iterator[Path]:
    """Yield the files of a model folder that may change an answer."""
    for path in (*folder.iterdir(), *(folder / _TEMPLATES).glob("*")):
        is_hidden = path.name.startswith(".")
        may_change = path.suffix in _COUNTED and path.name not in _OF_TRAINING
        if may_change and not is_hidden and path.is_file():
            yield path


def adapter_base(folder: Path) -> Path | None:
    """Return the folder of an adapter's base model.

    None for a model that is not an adapter, or for an adapter whose base is not an existing folder.
    """
    path = folder / "adapter_config.json"
    if not path.is_file():
        return None
    base = read_settings(path).get("base_model_name_or_path")
    if not isinstance(base, str) or not base:
        return None
    for candidate in (Path(base), folder / base):
        if candidate.is_dir():
            return candidate
    return None


def read_settings(path: Path) -> dict[str, object]:
    """Read the object of a model's JSON file; empty if the file holds anything else.

    Raises:
        OSError: the file cannot be read.
    """
    try:
        content = json.loads(read_file(path))
    except (ValueError, RecursionError):
        return {}
    if not isinstance(content, dict):
        return {}
    return cast("dict[str, object]", content)


def _digest(path: Path) -> str:
    """Return the SHA-256 of a file, read again only if its state on disk has changed."""
    state = path.stat()
    # With the time of the last change of any kind (ctime), which no program can set back.
    stamp = (
        state.st_dev,
        state.st_ino,
        state.st_size,
        state.st_mtime_ns,
        state.st_ctime_ns,
    )
    return _sha256(path, stamp)


@lru_cache(maxsize=4096)
def _sha256(path: Path, stamp: tuple[int, ...]) -> str:
    del stamp  # only part of the cache's key
    return file_sha256(path)


PromptForm = Literal["chat", "plain"]


def prompt_form(folder: Path) -> PromptForm:
    """Return how questions are put to the model of a tokenizer's folder.

    Args:
        folder: the tokenizer's folder; `model_files` has the hash of each of its files.
    """
    names = ("chat_template.jinja", f"{_TEMPLATES}/default.jinja")
    if any((folder / name).is_file() for name in names):
        return "chat"
    try:
        settings = read_settings(folder / "tokenizer_config.json")
    except OSError:  # the loading of the tokenizer reports it
        return "plain"
    return "chat" if settings.get("chat_template") else "plain"


def template_texts(folder: Path) -> Iterator[str]:
    """Yield the chat templates of a tokenizer's folder, wherever it keeps them.

    Raises:
        OSError: a file cannot be read.
    """
    further = sorted((folder / _TEMPLATES).glob("*.jinja"))
    for path in (folder / "chat_template.jinja", *further):
        if path.is_file():
            yield read_file(path).decode(errors="replace")
    path = folder / "tokenizer_config.json"
    if not path.is_file():
        return
    template = read_settings(path).get("chat_template")
    if isinstance(template, str):
        if template:
            yield template
    elif template:
        yield json.dumps(template)
