"""Is the model there, whole, and one that a policy can be made of?"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# transformers annotates these methods in part only.
from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, cast

import transformers
from transformers import AutoConfig, AutoTokenizer

from rubric_core import PolicyView
from rubric_core.files import read_file
from rubric_train_openrlhf.cluster.launching.preparation import REMEDY, refused_head_width
from rubric_train_openrlhf.cluster.rehearse.finding import failed, passed, warning
from rubric_train_openrlhf.config import PathModel
from rubric_train_openrlhf.errors import PolicyLoadError
from rubric_train_openrlhf.policy import ChatCodec, load_codec

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rubric_train_openrlhf.cluster.rehearse.checking import Subject
    from rubric_train_openrlhf.cluster.rehearse.finding import Finding


_INDEX: Final = "model.safetensors.index.json"
_TEXTS: Final = ("Explain the result.", "naïve café — 12.5 µm", "a  b\n\n- c")
_ANSWER: Final = "An answer."
_VIEW: Final = PolicyView(task_id="rehearsal", question="…")
_TOKENIZERS: Final = ("tokenizer.json", "tokenizer_config.json")


def check_model(subject: Subject) -> Iterator[Finding]:
    """Architecture and weights: every file that the index names."""
    folder = _folder(subject)
    if folder is not None and folder.exists() and not folder.is_dir():
        yield failed(
            f"{str(folder)!r} is a file",
            where="model.path",
            remedy="give the folder that holds config.json, weights and tokenizer",
        )
        return
    if folder is None or not (folder / "config.json").is_file():
        yield subject.absent(
            f"no config.json at {str(folder)!r} on this machine",
            where="model.path",
            remedy="copy the model there; for a rehearsal config.json and the tokenizer are enough",
        )
        return
    try:
        architecture = cast("Any", AutoConfig.from_pretrained(folder, local_files_only=True))
    # What a broken or an unknown config.json makes transformers raise is not known beforehand.
    except Exception as error:  # noqa: BLE001
        yield _unusable(folder / "config.json", error)
        return
    kinds = architecture.architectures or [type(architecture).__name__]
    if "CausalLM" not in kinds[0] and "LMHead" not in kinds[0]:
        yield failed(
            f"{str(folder)!r} holds a {kinds[0]}, which writes no text",
            where="model.path",
            remedy="give a causal language model",
        )
        return
    yield from _check_positions(subject, architecture)
    yield from _check_heads(subject, architecture)
    try:
        lacking = list(_lacking_weights(folder))
    except (OSError, ValueError, AttributeError, KeyError, TypeError) as error:
        yield _unusable(folder / _INDEX, error)
        return
    if lacking:
        yield subject.absent(
            f"{kinds[0]}, but {len(lacking)} weight files are missing, the first {lacking[0]!r}",
            where="model.path",
            remedy="copy them; the rehearsal itself needs no weights",
        )
        return
    yield passed(f"{kinds[0]} with its weights at {str(folder)!r}", where="model.path")


def check_tokenizer(subject: Subject) -> Iterator[Finding]:
    """Its own chat template, its end token, and text that comes back as it was."""
    folder = _folder(subject)
    if folder is None or not any((folder / name).is_file() for name in _TOKENIZERS):
        # Beside its weights a tokenizer is not elsewhere, but forgotten.
        forgotten = folder is not None and any(folder.glob("*.safetensors"))
        finding = failed if forgotten else subject.absent
        yield finding(
            f"no tokenizer at {str(folder)!r} on this machine: its chat template and its special "
            "tokens could not be checked",
            where="model.path",
            remedy="copy tokenizer.json and tokenizer_config.json there",
        )
        return
    try:
        codec = load_codec(folder)
    except PolicyLoadError as error:
        remedy = "copy the tokenizer's files again from where the model came from"
        yield failed(str(error), where="model.path", remedy=remedy)
        return
    if not isinstance(codec, ChatCodec):
        yield failed(
            f"the policy at {str(folder)!r} reads its prompts through slots, which vLLM does not "
            "know",
            where="model.path",
            remedy="use one with an ordinary tokenizer",
        )
        return
    try:
        shown = codec.prompt_text(_VIEW)
    except PolicyLoadError as error:
        yield failed(f"{error}: {error.__cause__}", where="model.path")
        return
    subject.codec = codec
    changed = [text for text in _TEXTS if codec.decode(_VIEW, codec.encode_text(text)) != text]
    if changed:
        yield failed(
            f"the tokenizer does not give back what it encodes: {changed[0]!r} comes back changed",
            where="model.path",
            remedy="use the model's fast tokenizer",
        )
    yield from _check_end(folder, codec)
    yield passed(f"end token {codec.eos_token_id}; a prompt is rendered as {shown!r}")


def _check_positions(subject: Subject, architecture: Any) -> Iterator[Finding]:
    longest = getattr(architecture, "max_position_embeddings", None)
    max_len = subject.known.cluster.max_len
    if isinstance(longest, int) and max_len > longest:
        yield failed(
            f"cluster.max_len={max_len} is more than the {longest} positions of the model",
            where="cluster.max_len",
            remedy="lower it, or extend the model's positions in its config.json",
        )


def _check_heads(subject: Subject, architecture: Any) -> Iterator[Finding]:
    heads = getattr(architecture, "num_attention_heads", None)
    parallel = subject.known.cluster.engines.tensor_parallel
    if isinstance(heads, int) and heads % parallel:
        yield failed(
            f"cluster.engines.tensor_parallel={parallel} does not divide the {heads} attention "
            "heads of the model, and vLLM splits by heads",
            where="cluster.engines.tensor_parallel",
            remedy="use a divisor of the number of heads",
        )
    on_cpu = subject.known.cluster.device == "cpu"
    if on_cpu and (why := refused_head_width(architecture)) is not None:
        yield failed(why, where="model.path", remedy=REMEDY)


def _unusable(file: Path, error: Exception) -> Finding:
    why = str(error).strip().partition("\n")[0]
    return failed(
        f"{str(file)!r} is not one that transformers {transformers.__version__} can use: "
        f"{type(error).__name__}: {why}",
        where="model.path",
        remedy="copy the file again from where the model came from",
    )


def _check_end(folder: Path, codec: ChatCodec) -> Iterator[Finding]:
    """An answer in the chat template must end in the token that ends a response."""
    tokenizer: Any = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    if not tokenizer.chat_template:
        yield warning(
            f"the tokenizer at {str(folder)!r} has no chat template: a question is asked as "
            f"{codec.prompt_text(_VIEW)!r}",
            where="model.path",
            remedy="as it should be for a base model; an instruct model needs its template",
        )
        return
    answer = [{"role": "user", "content": "…"}, {"role": "assistant", "content": _ANSWER}]
    text: str = tokenizer.apply_chat_template(answer, tokenize=False)
    behind = text.rpartition(_ANSWER)[2]
    ids: list[int] = tokenizer.encode(behind, add_special_tokens=False)
    if ids and ids[0] != codec.eos_token_id:
        yield warning(
            f"the chat template ends an answer with {behind!r}, and the tokenizer's end token is "
            f"{tokenizer.eos_token!r}: responses would run on to rollout.max_new_tokens",
            where="model.path",
            remedy="set eos_token in tokenizer_config.json to what ends a turn",
        )


def _folder(subject: Subject) -> Path | None:
    model = subject.known.model
    return model.path if isinstance(model, PathModel) else None


def _lacking_weights(folder: Path) -> Iterator[str]:
    index = folder / _INDEX
    if index.is_file():
        files = set(json.loads(read_file(index))["weight_map"].values())
        yield from sorted(name for name in files if not (folder / name).is_file())
    elif not any(folder.glob("*.safetensors")) and not any(folder.glob("*.bin")):
        yield "model.safetensors"
