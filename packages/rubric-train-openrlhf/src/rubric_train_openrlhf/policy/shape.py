"""Sizes of a decoder, read from its config.json; no weights are loaded."""

import json
from pathlib import Path
from typing import cast

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, PositiveInt

from rubric_core import ConfigError
from rubric_core.configuration import validated
from rubric_core.files import read_file, toml_beside
from rubric_train_openrlhf.errors import PolicyLoadError

_DENSE = frozenset({"llama", "mistral", "qwen2", "qwen3"})
"""Families of config.json whose weights `parameters` counts exactly."""
_BIASED = frozenset({"qwen2"})
_NORMED_HEADS = frozenset({"qwen3"})


class ModelShape(BaseModel):
    """A dense decoder with gated feed-forward layers and grouped keys and values."""

    model_config = ConfigDict(frozen=True, strict=True, populate_by_name=True)

    layers: PositiveInt = Field(validation_alias="num_hidden_layers")
    hidden: PositiveInt = Field(validation_alias="hidden_size")
    intermediate: PositiveInt = Field(validation_alias="intermediate_size")
    heads: PositiveInt = Field(validation_alias="num_attention_heads")
    # Pydantic 2.12 asks for these defaults also where `heads` or `hidden` was refused.
    kv_heads: PositiveInt = Field(
        default_factory=lambda read: read.get("heads", 1),
        validation_alias="num_key_value_heads",
    )
    head_dim: PositiveInt = Field(
        default_factory=lambda read: read.get("hidden", 1) // read.get("heads", 1)
    )
    vocabulary: PositiveInt = Field(validation_alias="vocab_size")
    tied: bool = Field(default=False, validation_alias="tie_word_embeddings")
    """One matrix for the first and the last layer."""
    window: PositiveInt | None = Field(default=None, validation_alias="sliding_window")
    """Tokens that a position sees at the most."""
    family: str = Field(default="llama", validation_alias="model_type")
    dtype: str | None = Field(
        default=None, validation_alias=AliasChoices("dtype", "torch_dtype")
    )
    """Number format of the weights in its folder, where config.json says."""

    @property
    def parameters(self) -> int:
        """Number of weights.

        N = V·h (twice if untied) + L·(2·h·a·d + 2·h·k·d + 3·h·I + 2·h) + h, with a heads and k
        key-value heads of d; the biases of Qwen2 and the head norms of Qwen3 on top.
        """
        queries = self.heads * self.head_dim
        keys = self.kv_heads * self.head_dim
        layer = 2 * self.hidden * (queries + keys) + 3 * self.hidden * self.intermediate
        layer += 2 * self.hidden
        if self.family in _BIASED:
            layer += queries + 2 * keys
        if self.family in _NORMED_HEADS:
            layer += 2 * self.head_dim
        tables = 1 if self.tied else 2
        return (
            tables * self.vocabulary * self.hidden + self.layers * layer + self.hidden
        )

    def kv_bytes_per_token(self, *, number_bytes: int = 2) -> int:
        """Cache of keys and values for one token of one response, 16-bit numbers by default."""
        return 2 * self.layers * self.kv_heads * self.head_dim * number_bytes


KNOWN_SHAPES = {
    name: ModelShape(**row)
    for name, row in toml_beside(__file__, "shapes.toml").items()
}
"""For a model that is not on this machine: by the beginning of its folder's name."""


def model_shape(folder: Path) -> ModelShape | None:
    """Sizes of the model in a folder, or of the published one that the folder is named after.

    Returns:
        None where neither is known, or the family is not one that can be counted.

    Raises:
        PolicyLoadError: config.json cannot be read.
    """
    file = folder / "config.json"
    if file.is_file():
        return _from_config(file)
    return next(
        (KNOWN_SHAPES[name] for name in KNOWN_SHAPES if folder.name.startswith(name)),
        None,
    )


def _from_config(file: Path) -> ModelShape | None:
    source = f"{str(file)!r} could not be read"
    try:
        values = json.loads(read_file(file))
    except (OSError, ValueError) as error:
        raise PolicyLoadError(f"{source}: {error}", path=file) from error
    if not isinstance(values, dict):
        held = type(values).__name__
        raise PolicyLoadError(
            f"{source}: it holds {held}, not a JSON object", path=file
        )
    read = cast("dict[str, object]", values)
    if str(read.get("model_type")) not in _DENSE:
        return None
    said = {key: value for key, value in read.items() if value is not None}
    if read.get("use_sliding_window") is False:
        said.pop("sliding_window", None)
    try:
        return validated(ModelShape, said, source=source)
    except ConfigError as error:
        raise PolicyLoadError(str(error), path=file) from error
