"""How a policy comes to be: shape, pre-training and warm start, as settings.

Apart from `policy`, which loads torch and transformers: reading a configuration takes neither.
"""

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import ClassVar, Literal, Self

import pydantic
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveInt,
)

from rubric_core.data.chat_prompt import ChatPrompt
from rubric_core.data.model_files import template_texts
from rubric_core.nearest import near
from rubric_train_openrlhf.errors import PolicyLoadError, TrainConfigError

SLOT_FILE = "slots.json"
"""Marks a model folder whose tokenizer is read through a `SlotCodec`."""


def check_model_folder(folder: Path) -> None:
    """Look whether there is a model.

    Raises:
        PolicyLoadError: there is no such folder, or no model's configuration in it.
    """
    for wanted, what in (
        (folder, "folder"),
        (folder / "config.json", "model configuration"),
    ):
        # Unlike the method of a path, false for a name that is too long too.
        if not os.path.exists(wanted):  # noqa: PTH110
            raise PolicyLoadError(
                f"no {what} at {str(wanted)!r}; give a folder that holds a Hugging Face "
                "causal language model (config.json, safetensors weights, "
                f"tokenizer){near(wanted)}",
                path=folder,
            )


_GIVEN = frozenset(
    {
        "messages",
        "tools",
        "documents",
        "add_generation_prompt",
        "raise_exception",
        "strftime_now",
    }
)
"""Names that every chat template is given."""
_MARKED = re.compile(r"{%-?\s*(end)?generation\s*-?%}")
"""A statement of transformers, not of jinja2."""


def check_arguments(folder: Path, *, prompt: ChatPrompt) -> None:
    """Look whether the chat template of a model folder reads the names that it is given.

    Raises:
        TrainConfigError: it does not read one of them; says which it reads.
    """
    if not prompt.arguments or not folder.is_dir():
        return
    import jinja2.meta  # only where there are names: a configuration is read in little time

    reader = jinja2.Environment(extensions=["jinja2.ext.loopcontrols"])  # noqa: S701  # renders nothing
    known = set[str]()
    words = set[str]()
    for text in template_texts(folder):
        words |= set(re.findall(r"\w+", text))
        # A template may use extensions of the language that transformers adds.
        with suppress(jinja2.TemplateError):
            known |= jinja2.meta.find_undeclared_variables(
                reader.parse(_MARKED.sub("", text))
            )
    if unread := [name for name in prompt.arguments if name not in known | words]:
        readable = [name for name in known - _GIVEN if not name.endswith("_token")]
        names = ", ".join(sorted(readable))
        raise TrainConfigError(
            f"the chat template in {str(folder)!r} does not read {', '.join(unread)}, given as "
            f"chat_template_kwargs: it reads {names or 'no such name'}; correct the name, or "
            "leave it out",
            location="model.chat_template_kwargs",
        )


class Section(BaseModel):
    """Base of all settings: frozen, no unknown keys, fields documented by their docstrings."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True
    )


class TinyConfig(Section):
    """Shape of the tiny policy; the default has 1.16 million parameters."""

    vocab_size: int = Field(default=3000, ge=300)
    """Tokens of the vocabulary, at most; few texts give fewer."""
    hidden_size: PositiveInt = 128
    """Width of the residual stream."""
    intermediate_size: PositiveInt = 336
    """Width inside the feed-forward layers."""
    layers: PositiveInt = 4
    """Decoder layers."""
    heads: PositiveInt = 4
    """Attention heads; divides `hidden_size` into even parts."""
    kv_heads: PositiveInt = 4
    """Key and value heads; divides `heads`."""
    max_positions: PositiveInt = 512
    """Longest prompt plus answer, in tokens."""

    @pydantic.model_validator(mode="after")
    def _check_heads(self) -> Self:
        if self.hidden_size % (2 * self.heads) or self.heads % self.kv_heads:
            raise ValueError(
                f"hidden_size {self.hidden_size}, heads {self.heads}, kv_heads {self.kv_heads}: "
                "heads must divide hidden_size into even parts and kv_heads must divide heads"
            )
        return self


class PretrainConfig(Section):
    """Schedule of language-model training, in steps."""

    decay: ClassVar[Literal["cosine", "linear"]] = "cosine"
    """Curve along which the learning rate falls to a tenth."""
    betas: ClassVar[tuple[float, float]] = (0.9, 0.95)
    """Decay rates β₁ and β₂ of AdamW."""
    steps: PositiveInt = 200
    """Optimiser steps."""
    batch_size: PositiveInt = 8
    """Windows per step."""
    window_tokens: PositiveInt = 192
    """Tokens per window."""
    learning_rate: NonNegativeFloat = 3e-3
    """Highest learning rate; it falls to a tenth along a cosine."""
    warmup_steps: NonNegativeInt = 20
    """Steps over which the learning rate rises."""
    weight_decay: NonNegativeFloat = 0.05
    """Weight decay of AdamW."""


class SftConfig(Section):
    """Schedule of the warm start, in steps."""

    decay: ClassVar[Literal["cosine", "linear"]] = "linear"
    """Curve along which the learning rate falls to a tenth."""
    betas: ClassVar[tuple[float, float]] = (0.9, 0.999)
    """Decay rates β₁ and β₂ of AdamW."""
    steps: PositiveInt = 250
    """Optimiser steps."""
    batch_size: PositiveInt = 8
    """Examples per step; all of them where there are fewer."""
    learning_rate: NonNegativeFloat = 2e-3
    """Highest learning rate; it falls to a tenth in a straight line. The default is for a tiny
    policy, and must be replaced for any other model: 8 billion weights take about 5e-6."""
    warmup_steps: NonNegativeInt = 10
    """Steps over which the learning rate rises."""
    weight_decay: NonNegativeFloat = 0.01
    """Weight decay of AdamW."""
    max_prompt_tokens: PositiveInt = 1024
    """Examples with longer questions are left out."""
    max_answer_tokens: PositiveInt = 1024
    """Examples with longer answers, end token included, are left out."""
