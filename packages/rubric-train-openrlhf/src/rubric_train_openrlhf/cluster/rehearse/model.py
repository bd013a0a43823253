"""Is the model there, whole, and one that a policy can be made of?"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, cast

import transformers
from transformers import AutoConfig, AutoTokenizer

from rubric_core import PolicyView
from rubric_core.data.end_tokens import end_tokens, settings_end
from rubric_core.files import read_file
from rubric_train_openrlhf.cluster.launching import preparation
from rubric_train_openrlhf.cluster.rehearse import checking as check
from rubric_train_openrlhf.errors import PolicyLoadError, TrainConfigError
from rubric_train_openrlhf.policy import ChatCodec
from rubric_train_openrlhf.policy_config import check_arguments

_INDEX: Final = "model.safetensors.index.json"
_TEXTS: Final = ("Explain the result.", "naïve café — 12.5 µm", "a  b\n\n- c")
_VIEW: Final = PolicyView(task_id="rehearsal", question="…")
_TOKENIZERS: Final = ("tokenizer.json", "tokenizer_config.json")


def check_model(subject: check.Subject) -> Sequence[check.Finding]:
    """Architecture and weights: every file that the index names."""
    folder = subject.find_model()
    if folder is not None and folder.exists() and not folder.is_dir():
        return [check.failed("model_is_a_file", path=folder)]
    if folder is None or not (folder / "config.json").is_file():
        return [subject.absent("no_model", path=folder)]
    try:
        architecture = cast(
            "Any", AutoConfig.from_pretrained(folder, local_files_only=True)
        )
    # What a broken or an unknown config.json makes transformers raise is not known beforehand.
    except Exception as error:  # noqa: BLE001
        return [_unusable(folder / "config.json", error)]
    kind = (architecture.architectures or [type(architecture).__name__])[0]
    if "CausalLM" not in kind and "LMHead" not in kind:
        return [check.failed("writes_no_text", path=folder, kind=kind)]
    return [*_misfits(subject, architecture), _weights(subject, folder, kind)]


def _misfits(subject: check.Subject, architecture: Any) -> Iterator[check.Finding]:
    """Sizes of the configuration that the model's do not allow."""
    cluster = subject.known.cluster
    longest = getattr(architecture, "max_position_embeddings", None)
    if isinstance(longest, int) and cluster.max_len > longest:
        yield check.failed("beyond_positions", most=cluster.max_len, positions=longest)
    heads = getattr(architecture, "num_attention_heads", None)
    parallel = cluster.engines.tensor_parallel
    if isinstance(heads, int) and heads % parallel:
        yield check.failed("heads_do_not_split", parallel=parallel, heads=heads)
    why = (
        preparation.refused_head_width(architecture)
        if cluster.device == "cpu"
        else None
    )
    if why is not None:
        yield check.failed(why, remedy=preparation.REMEDY)


def _weights(subject: check.Subject, folder: Path, kind: str) -> check.Finding:
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
        return subject.absent("no_weights", kind=kind, n=len(missing), first=missing[0])
    return check.passed(f"{kind} with its weights at {str(folder)!r}")


def check_tokenizer(subject: check.Subject) -> Sequence[check.Finding]:
    """Its own chat template, its end token, and text that comes back as it was."""
    folder = subject.model_folder
    if folder is None or not any((folder / name).is_file() for name in _TOKENIZERS):
        # Beside its weights a tokenizer is not elsewhere, but forgotten.
        is_forgotten = folder is not None and any(folder.glob("*.safetensors"))
        finding = check.failed if is_forgotten else subject.absent
        return [finding("no_tokenizer", path=folder)]
    try:
        model = subject.known.model
        check_arguments(folder, prompt=model.chat_prompt)
        codec = preparation.load_chat_codec(
            folder, prompt=model.chat_prompt, thoughts=model.told_thoughts
        )
    except TrainConfigError as error:
        return [check.failed(str(error), where=error.location)]
    except PolicyLoadError as error:
        return [check.failed("tokenizer_is_wrong", error=error)]
    try:
        shown = codec.prompt_text(_VIEW)
    except PolicyLoadError as error:
        return [check.failed(f"{error}: {error.__cause__}")]
    subject.codec = codec
    changed = [
        check.failed("text_comes_back_changed", text=text)
        for text in _TEXTS
        if codec.completion(_VIEW, codec.encode_text(text)).text != text
    ]
    return [*changed[:1], *_check_end(folder, codec, shown)]


def _unusable(file: Path, error: Exception) -> check.Finding:
    why = str(error).strip().partition("\n")[0]
    by = transformers.__version__
    return check.failed(
        "unusable", path=file, version=by, kind=type(error).__name__, why=why
    )


def _check_end(folder: Path, codec: ChatCodec, shown: str) -> Iterator[check.Finding]:
    """The chat template, the tokenizer and the settings should name one token that ends a turn."""
    tokenizer: Any = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    if not tokenizer.chat_template:
        yield check.warning("no_template", path=folder, shown=shown)
        return
    ends = end_tokens(tokenizer, settings_end(folder))
    if ends.differ:
        named = "; ".join(
            f"{part} {text}" for part, text in ends.named(tokenizer).items()
        )
        yield check.warning("ends_differ", named=named, trained=codec.eos_text)
    yield check.passed(
        f"end token {codec.eos_token_id}; a prompt is rendered as {shown!r}"
    )
