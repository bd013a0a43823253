"""Is the model there, whole, and one that a policy can be made of?"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import transformers
from transformers import AutoConfig, AutoTokenizer

from rubric_core import PolicyView
from rubric_core.data.end_tokens import end_tokens, settings_end
from rubric_core.files import read_file
from rubric_train_openrlhf.cluster.launching import preparation
from rubric_train_openrlhf.cluster.rehearse import checking as check
from rubric_train_openrlhf.cluster.rehearse.checking import Finding, Subject
from rubric_train_openrlhf.errors import PolicyLoadError, TrainConfigError
from rubric_train_openrlhf.policy import ChatCodec
from rubric_train_openrlhf.policy_config import check_arguments

_INDEX = "model.safetensors.index.json"
_TEXTS = ("Explain the result.", "naïve café — 12.5 µm", "a  b\n\n- c")
_VIEW = PolicyView(task_id="rehearsal", question="…")
_TOKENIZERS = ("tokenizer.json", "tokenizer_config.json")


def check_model(subject: Subject) -> Sequence[Finding]:
    """Architecture and weights: every file that the index names."""
    folder = subject.find_model()
    if folder is not None and folder.exists() and not folder.is_dir():
        return [
            check.failed(
                f"{str(folder)!r} is a file",
                remedy="give the folder that holds config.json, weights and tokenizer",
            )
        ]
    if folder is None or not (folder / "config.json").is_file():
        return [
            subject.absent(
                f"no config.json at {_shown(folder)} on this machine",
                remedy="copy the model there; for a rehearsal config.json and the "
                "tokenizer are enough",
            )
        ]
    try:
        architecture = cast(
            "Any", AutoConfig.from_pretrained(folder, local_files_only=True)
        )
    # What a broken or an unknown config.json makes transformers raise is not known beforehand.
    except Exception as error:  # noqa: BLE001
        return [_unusable(folder / "config.json", error)]
    kind = (architecture.architectures or [type(architecture).__name__])[0]
    if "CausalLM" not in kind and "LMHead" not in kind:
        return [
            check.failed(
                f"{str(folder)!r} holds a {kind}, which writes no text",
                remedy="give a causal language model",
            )
        ]
    return [*_misfits(subject, architecture), _weights(subject, folder, kind)]


def _shown(folder: Path | None) -> str:
    return repr(None if folder is None else str(folder))


def _misfits(subject: Subject, architecture: Any) -> Iterator[Finding]:
    """Sizes of the configuration that the model's do not allow."""
    cluster = subject.known.cluster
    longest = getattr(architecture, "max_position_embeddings", None)
    if isinstance(longest, int) and cluster.max_len > longest:
        yield check.failed(
            f"cluster.max_len={cluster.max_len} is more than the {longest} positions of "
            "the model",
            where="cluster.max_len",
            remedy="lower it, or extend the model's positions in its config.json",
        )
    heads = getattr(architecture, "num_attention_heads", None)
    parallel = cluster.engines.tensor_parallel
    if isinstance(heads, int) and heads % parallel:
        yield check.failed(
            f"cluster.engines.tensor_parallel={parallel} does not divide the {heads} "
            "attention heads of the model, and vLLM splits by heads",
            where="cluster.engines.tensor_parallel",
            remedy="use a divisor of the number of heads",
        )
    why = (
        preparation.refused_head_width(architecture)
        if cluster.device == "cpu"
        else None
    )
    if why is not None:
        yield check.failed(why, remedy=preparation.REMEDY)


def _weights(subject: Subject, folder: Path, kind: str) -> Finding:
    index = folder / _INDEX
    try:
        if index.is_file():
            files = set(json.loads(read_file(index))["weight_map"].values())
            missing = sorted(name for name in files if not (folder / name).is_file())
        else:
            is_there = any(
                any(folder.glob(f"*.{end}")) for end in ("safetensors", "bin")
            )
            missing = [] if is_there else ["model.safetensors"]
    except (OSError, ValueError, AttributeError, KeyError, TypeError) as error:
        return _unusable(index, error)
    if missing:
        return subject.absent(
            f"{kind}, but {len(missing)} weight files are missing, the first "
            f"{missing[0]!r}",
            remedy="copy them; the rehearsal itself needs no weights",
        )
    return check.passed(f"{kind} with its weights at {str(folder)!r}")


def check_tokenizer(subject: Subject) -> Sequence[Finding]:
    """Its own chat template, its end token, and text that comes back as it was."""
    folder = subject.model_folder
    if folder is None or not any((folder / name).is_file() for name in _TOKENIZERS):
        # Beside its weights a tokenizer is not elsewhere, but forgotten.
        is_forgotten = folder is not None and any(folder.glob("*.safetensors"))
        finding = check.failed if is_forgotten else subject.absent
        return [
            finding(
                f"no tokenizer at {_shown(folder)} on this machine: its chat template "
                "and its special tokens could not be checked",
                remedy="copy tokenizer.json and tokenizer_config.json there",
            )
        ]
    try:
        model = subject.known.model
        check_arguments(folder, prompt=model.chat_prompt)
        codec = preparation.load_chat_codec(
            folder, prompt=model.chat_prompt, thoughts=model.told_thoughts
        )
    except TrainConfigError as error:
        return [check.failed(str(error), where=error.location)]
    except PolicyLoadError as error:
        return [
            check.failed(
                f"{error}",
                remedy="copy the tokenizer's files again from where the model came from",
            )
        ]
    try:
        shown = codec.prompt_text(_VIEW)
    except PolicyLoadError as error:
        return [check.failed(f"{error}: {error.__cause__}")]
    subject.codec = codec
    changed = [
        check.failed(
            f"the tokenizer does not give back what it encodes: {text!r} comes back "
            "changed",
            remedy="use the model's fast tokenizer",
        )
        for text in _TEXTS
        if codec.completion(_VIEW, codec.encode_text(text)).text != text
    ]
    return [*changed[:1], *_check_end(folder, codec, shown)]


def _unusable(file: Path, error: Exception) -> Finding:
    why = str(error).strip().partition("\n")[0]
    by = transformers.__version__
    return check.failed(
        f"{str(file)!r} is not one that transformers {by} can use: "
        f"{type(error).__name__}: {why}",
        remedy="copy the file again from where the model came from",
    )


def _check_end(folder: Path, codec: ChatCodec, shown: str) -> Iterator[Finding]:
    """The chat template, the tokenizer and the settings should name one token that ends a turn."""
    tokenizer: Any = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    if not tokenizer.chat_template:
        yield check.warning(
            f"the tokenizer at {str(folder)!r} has no chat template: a question is "
            f"asked as {shown!r}",
            remedy="as it should be for a base model; an instruct model needs its "
            "template",
        )
        return
    ends = end_tokens(tokenizer, settings_end(folder))
    if ends.disagree:
        named = "; ".join(
            f"{part} {text}" for part, text in ends.described(tokenizer).items()
        )
        yield check.warning(
            f"the model names different end tokens: {named}; each ends a response, and "
            f"{codec.eos_text!r} is trained on",
            remedy="set eos_token in tokenizer_config.json and eos_token_id in "
            "generation_config.json to what ends a turn",
        )
    yield check.passed(
        f"end token {codec.eos_token_id}; a prompt is rendered as {shown!r}"
    )
