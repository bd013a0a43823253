"""Load, save or build a policy and its codec."""

import json
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

import structlog
import tokenizers
import torch
import transformers
from safetensors import SafetensorError
from safetensors import torch as safetensors_torch
from transformers import LlamaForCausalLM, PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils import logging as transformers_logging

from rubric_core import Thoughts
from rubric_core.data.chat_prompt import PLAIN, ChatPrompt
from rubric_core.data.end_tokens import end_tokens, settings_end
from rubric_core.data.model_files import read_settings
from rubric_core.errors import shortened
from rubric_core.files import replacing_folder
from rubric_core.nearest import near
from rubric_train_openrlhf.errors import DiskWriteError, PolicyLoadError
from rubric_train_openrlhf.policy.codec import (
    SLOT_TOKENS,
    ChatCodec,
    SlotCodec,
    TextCodec,
)
from rubric_train_openrlhf.policy.holding import (
    hold_in_evaluation,
    hold_rope,
    read_rotary,
    write_rotary,
)
from rubric_train_openrlhf.policy_config import (
    SLOT_FILE,
    TinyConfig,
    check_model_folder,
)

DTYPES: dict[str, torch.dtype] = {
    name: getattr(torch, name) for name in ("float32", "bfloat16", "float16")
}
"""By their names in a configuration."""
_log = structlog.get_logger()
_SHOWN_CHARACTERS = 400
_Model = TypeVar("_Model", bound=PreTrainedModel)


@dataclass(frozen=True, slots=True)
class Policy:
    """A causal language model, and how it reads questions and writes answers."""

    model: PreTrainedModel
    codec: TextCodec
    saved_dtype: torch.dtype | None = None
    """Number format that its weights are saved in; None is theirs."""

    @property
    def is_cast(self) -> bool:
        """Whether weights lose digits, or gain empty ones, where they are saved."""
        return self.saved_dtype not in {None, self.model.dtype}

    def round_to_saved(self) -> None:
        """Leave of each weight what a saved folder would hold of it."""
        if self.is_cast:
            with torch.no_grad():
                for weights in self.model.parameters():
                    weights.copy_(weights.to(self.saved_dtype))

    @property
    def device(self) -> torch.device:
        """Where the model's weights are."""
        return self.model.device

    def save(self, path: Path | str) -> None:
        """Write a Hugging Face model folder that `load_policy` reads.

        The folder appears whole or not at all; one that stood there before is replaced.

        Args:
            path: the folder.

        Raises:
            DiskWriteError: it could not be written; what stood there before still does.
        """
        target = Path(path)
        try:
            with replacing_folder(target) as fresh:
                self.write(fresh)
        except (OSError, SafetensorError) as error:
            raise DiskWriteError(
                f"the policy could not be written to {str(target)!r}: {error}; free space or "
                "choose another folder",
                path=target,
            ) from error

    def write(self, folder: Path) -> None:
        """Write the files of the model and of its codec into a folder."""
        with silently():
            cast("Any", self.model).save_pretrained(folder)
        if self.saved_dtype is not None:
            cast_folder(folder, self.saved_dtype)
        self.codec.save(folder)
        write_rotary(self.model, folder)


def load_policy(
    path: Path | str,
    *,
    device: torch.device | str = "cpu",
    dtype: torch.dtype | Literal["auto"] = torch.float32,
    prompt: ChatPrompt = PLAIN,
    thoughts: Thoughts = "cut",
) -> Policy:
    """Read a policy from a model folder; the network is never asked.

    Args:
        path: a folder with a Hugging Face causal language model and its tokenizer.
        device: where the weights go.
        dtype: floating type of the weights; "auto" is that of the folder.
        prompt: what its chat template is given beside the question.
        thoughts: how its thoughts are told from its answers; see `rubric_core.answer_of`.

    Returns:
        The policy, held in evaluation mode and its rotary embedding to one length, so that
        log-probabilities can be reproduced. It speaks through slots if it was saved so, else
        through its tokenizer, and is saved in the number format of the folder.

    Raises:
        PolicyLoadError: no such folder, not a model folder, or weights that are broken or lack
            tensors.
    """
    folder = Path(path)
    check_model_folder(folder)
    with reading(folder, f"the model folder {str(folder)!r}"), silently():
        codec = _codec(folder, prompt, thoughts)
        read: Any = transformers.AutoModelForCausalLM
        model, report = read.from_pretrained(
            folder, dtype=dtype, local_files_only=True, output_loading_info=True
        )
    if lacking := sorted(report["missing_keys"]):
        raise PolicyLoadError(
            f"the weights in {str(folder)!r} lack {len(lacking)} tensors, the first "
            f"{lacking[0]!r}; copy the whole model folder again",
            path=folder,
        )
    torch.nn.Module.to(hold_in_evaluation(model), device)
    hold_rope(model, longest=read_rotary(folder))
    return Policy(model, codec, DTYPES.get(folder_dtype(folder) or ""))


def folder_dtype(folder: Path) -> str | None:
    """Number format of the weights in a model folder by its config.json; None if it is another."""
    settings = read_settings(folder / "config.json")
    name = str(settings.get("dtype", settings.get("torch_dtype")))
    return name if name in DTYPES else None


def cast_folder(folder: Path, dtype: torch.dtype) -> None:
    """Give the weights of a model folder that is being written another number format.

    Raises:
        OSError, SafetensorError: a file cannot be read or written.
    """
    files: Any = safetensors_torch
    for path in folder.glob("*.safetensors"):
        tensors: dict[str, torch.Tensor] = files.load_file(path)
        if any(
            tensor.is_floating_point() and tensor.dtype != dtype
            for tensor in tensors.values()
        ):
            for name, tensor in tensors.items():
                if tensor.is_floating_point():
                    tensors[name] = tensor.to(dtype)
            files.save_file(tensors, path, metadata={"format": "pt"})
    file = folder / "config.json"
    settings = read_settings(file) | {"dtype": str(dtype).removeprefix("torch.")}
    file.write_text(
        json.dumps(settings, indent=2, sort_keys=True) + "\n", encoding="utf-8"
    )


def load_codec(
    path: Path | str, *, prompt: ChatPrompt = PLAIN, thoughts: Thoughts = "cut"
) -> TextCodec:
    """Read how a saved policy takes questions and gives answers, without its weights.

    Args:
        path: a folder that `load_policy` reads.
        prompt: what its chat template is given beside the question.
        thoughts: how its thoughts are told from its answers; see `rubric_core.answer_of`.

    Raises:
        PolicyLoadError: no such folder, or no tokenizer in it.
    """
    folder = Path(path)
    if not folder.is_dir():
        raise PolicyLoadError(
            f"no folder at {str(folder)!r}; give one that holds a model and its "
            f"tokenizer{near(folder)}",
            path=folder,
        )
    with reading(folder, f"the tokenizer in {str(folder)!r}"):
        return _codec(folder, prompt, thoughts)


def read_config(folder: Path) -> transformers.PretrainedConfig:
    """Read the config.json of a model folder.

    Raises:
        PolicyLoadError: it describes no model.
    """
    with reading(folder, f"the model folder {str(folder)!r}"):
        configs: Any = transformers.AutoConfig
        return configs.from_pretrained(folder, local_files_only=True)


def parameter_count(folder: Path) -> int:
    """Count the weights of a model folder, of which only config.json is read.

    Raises:
        PolicyLoadError: it describes no causal language model.
    """
    config = read_config(folder)
    with reading(folder, f"the model folder {str(folder)!r}"), torch.device("meta"):
        models: Any = transformers.AutoModelForCausalLM
        return models.from_config(config).num_parameters()


@contextmanager
def reading(folder: Path, what: str) -> Generator[None]:
    """Name the folder in whatever a broken file makes the library raise, which is not known."""
    try:
        yield
    except PolicyLoadError:
        raise
    except Exception as error:
        reason = shortened(" ".join(str(error).split()), _SHOWN_CHARACTERS)
        raise PolicyLoadError(
            f"{what} could not be read: {reason}", path=folder
        ) from error


def _codec(folder: Path, prompt: ChatPrompt, thoughts: Thoughts) -> TextCodec:
    read: Any = transformers.AutoTokenizer
    tokenizer = read.from_pretrained(folder, local_files_only=True)
    path = folder / SLOT_FILE
    if not path.exists():
        ends = end_tokens(tokenizer, settings_end(folder))
        if ends.disagree:
            _say_differ(**ends.described(tokenizer))
        return ChatCodec(tokenizer, ends, prompt=prompt, thoughts=thoughts)
    if read_settings(path) != {"slot_tokens": list(SLOT_TOKENS)}:
        slots = ", ".join(SLOT_TOKENS)
        raise PolicyLoadError(
            f"{str(path)!r} does not name the slots {slots}; copy the whole model folder again",
            path=folder,
        )
    return SlotCodec(tokenizer, thoughts)


@lru_cache  # once in a process, which may load a policy and its checkpoints
def _say_differ(**named: str) -> None:
    _log.warning(
        "policy.end_tokens.differ",
        **named,
        why="each ends an answer; the chat template's, or else the tokenizer's, is trained on",
    )


@contextmanager
def silently() -> Generator[None]:
    """Keep the library's progress bars, which last a moment, off the terminal."""
    shown = transformers_logging.is_progress_bar_enabled()
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            transformers_logging.enable_progress_bar()


_CONTROL_TOKENS = ("<pad>", "<bos>", "<eos>")
_PAD_ID, _BOS_ID, _EOS_ID = range(3)
_INITIAL_STD = 0.02


def build_tokenizer(
    texts: Iterable[str],
    vocab_size: int,
    *,
    control: tuple[str, str, str] = _CONTROL_TOKENS,
    special: Iterable[str] = SLOT_TOKENS,
) -> PreTrainedTokenizerBase:
    """Learn a byte-level BPE vocabulary with special tokens.

    Args:
        texts: what the policy will read and write.
        vocab_size: at most this many tokens; with the slots 266 of them are bytes or special.
        control: what pads, begins and ends a text.
        special: further special tokens, by default the slots.

    Returns:
        A tokenizer that encodes any text without loss.
    """
    # The library types its classes loosely.
    tokenizer: Any = tokenizers.Tokenizer(tokenizers.models.BPE())
    byte_level: Any = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.pre_tokenizer = byte_level
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=list(dict.fromkeys([*control, *special])),
        initial_alphabet=sorted(byte_level.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    pad, bos, eos = control
    fast: Any = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=pad,
        bos_token=bos,
        eos_token=eos,
        clean_up_tokenization_spaces=False,
    )
    return fast


def build_tiny_llama(config: TinyConfig, *, seed: int) -> LlamaForCausalLM:
    """Make a Llama with random weights.

    Args:
        config: its shape.
        seed: of the weights; torch's global random state is left alone.

    Returns:
        A float32 model on the CPU, in evaluation mode.
    """
    llama = transformers.LlamaConfig(
        vocab_size=config.vocab_size,
        hidden_size=config.hidden_size,
        intermediate_size=config.intermediate_size,
        num_hidden_layers=config.layers,
        num_attention_heads=config.heads,
        num_key_value_heads=config.kv_heads,
        max_position_embeddings=config.max_positions,
        tie_word_embeddings=True,
        pad_token_id=_PAD_ID,
        bos_token_id=_BOS_ID,
        eos_token_id=_EOS_ID,
    )
    return with_random_weights(LlamaForCausalLM, llama, seed=seed).eval()


def with_random_weights(
    build: Callable[[Any], _Model], config: object, *, seed: int
) -> _Model:
    """Build a model and draw its matrices; torch's global random state is left alone.

    Args:
        build: makes a model of a configuration.
        config: its shape.
        seed: of the weights.
    """
    state = torch.get_rng_state()
    model = build(config)
    torch.set_rng_state(state)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0.0, _INITIAL_STD, generator=generator)
    return model


def build_tiny_policy(texts: Iterable[str], config: TinyConfig, *, seed: int) -> Policy:
    """Make a whole untrained policy for a corpus.

    Args:
        texts: what the vocabulary is learnt from: questions, answers, documents.
        config: shape of the model; its vocabulary shrinks to what the texts give.
        seed: of the weights.

    Returns:
        A policy that speaks through slots.
    """
    tokenizer = build_tokenizer(texts, config.vocab_size)
    fitted = config.model_copy(update={"vocab_size": len(tokenizer)})
    return Policy(build_tiny_llama(fitted, seed=seed), SlotCodec(tokenizer))
