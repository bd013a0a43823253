"""Conventions of model families, for a tokenizer that stands in where the real one is not here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_VOCABULARY: Final = 2048


@dataclass(frozen=True)
class Family:
    """How models of a family are called, and what stands around a message."""

    model_type: str
    """As transformers names it."""
    bos: str
    eos: str
    """Ends an answer."""
    pad: str
    special: tuple[str, ...]
    """Further special tokens of the chat template."""
    template: str
    """Jinja, one message after the other."""


_LLAMA_3: Final = Family(
    model_type="llama",
    bos="<|begin_of_text|>",
    eos="<|eot_id|>",
    pad="<|finetune_right_pad_id|>",
    special=("<|start_header_id|>", "<|end_header_id|>", "<|end_of_text|>"),
    template=(
        "{{ bos_token }}{% for message in messages %}"
        "{{ '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n' }}"
        "{{ message['content'] | trim + '<|eot_id|>' }}{% endfor %}"
        "{% if add_generation_prompt %}"
        "{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"
    ),
)
_CHATML: Final = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
_MISTRAL: Final = Family(
    model_type="mistral",
    bos="<s>",
    eos="</s>",
    pad="<pad>",
    special=("[INST]", "[/INST]"),
    template=(
        "{{ bos_token }}{% for message in messages %}{% if message['role'] == 'user' %}"
        "{{ '[INST] ' + message['content'] + '[/INST]' }}{% else %}"
        "{{ ' ' + message['content'] + eos_token }}{% endif %}{% endfor %}"
    ),
)


def family_of(name: str) -> Family:
    """Tell a family by a model's name; Llama 3 where it says nothing."""
    lower = name.lower()
    if "qwen" in lower:
        kind = "qwen3" if "qwen3" in lower else "qwen2"
        return Family(kind, "<|endoftext|>", "<|im_end|>", "<|pad|>", ("<|im_start|>",), _CHATML)
    if "mistral" in lower or "ministral" in lower:
        return _MISTRAL
    return _LLAMA_3


def write_tokenizer(family: Family, out: Path, *, texts: Iterable[str]) -> Any:  # noqa: ANN401  # no types of its own
    """Learn a byte-level vocabulary and save it with a family's special tokens and template."""
    backend: Any = Tokenizer(models.BPE())
    byte_level: Any = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.pre_tokenizer = byte_level
    backend.decoder = decoders.ByteLevel()
    special = list(dict.fromkeys([family.pad, family.bos, family.eos, *family.special]))
    trainer = trainers.BpeTrainer(
        vocab_size=_VOCABULARY,
        special_tokens=special,
        initial_alphabet=sorted(byte_level.alphabet()),
        show_progress=False,
    )
    backend.train_from_iterator(texts, trainer)
    fast: Any = PreTrainedTokenizerFast(
        tokenizer_object=backend,
        bos_token=family.bos,
        eos_token=family.eos,
        pad_token=family.pad,
        clean_up_tokenization_spaces=False,
    )
    fast.chat_template = family.template
    out.mkdir(parents=True, exist_ok=True)
    fast.save_pretrained(out)
    return fast
