"""Sizes of a decoder, read from its config.json; no weights are loaded."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple, cast

from rubric_core.files import read_file, toml_beside
from rubric_train_openrlhf.errors import PolicyLoadError

_DENSE = frozenset({"llama", "mistral", "qwen2", "qwen3"})
"""Families of config.json whose weights `parameters` counts exactly."""
_BIASED = frozenset({"qwen2"})
_NORMED_HEADS = frozenset({"qwen3"})


class ModelShape(NamedTuple):
    """A dense decoder with gated feed-forward layers and grouped keys and values."""

    layers: int
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    tied: bool = False
    """One matrix for the first and the last layer."""
    family: str = "llama"
    dtype: str | None = None
    """Number format of the weights in its folder, where config.json says."""

    @property
    def parameters(self) -> int:
        """Number of weights.

        N = V·h (twice if untied) + L·(2·h·a·d + 2·h·k·d + 3·h·I + 2·h) + h, with a heads and k
        key-value heads of d; the biases of Qwen2 and the head norms of Qwen3 on top.
        """
        queries, keys = self.heads * self.head_dim, self.kv_heads * self.head_dim
        layer = 2 * self.hidden * (queries + keys) + 3 * self.hidden * self.intermediate
        layer += 2 * self.hidden
        if self.family in _BIASED:
            layer += queries + 2 * keys
        if self.family in _NORMED_HEADS:
            layer += 2 * self.head_dim
        tables = 1 if self.tied else 2
        return tables * self.vocabulary * self.hidden + self.layers * layer + self.hidden

    def kv_bytes_per_token(self, *, number_bytes: int = 2) -> int:
        """Cache of keys and values for one token of one response, 16-bit numbers by default."""
        return 2 * self.layers * self.kv_heads * self.head_dim * number_bytes


KNOWN_SHAPES: Final = {
    name: ModelShape(**row) for name, row in toml_beside(__file__, "shapes.toml").items()
}
"""For a model that is not on this machine: by the beginning of its folder's name."""


def model_shape(folder: Path) -> ModelShape | None:
    """Sizes of the model in a folder, or of the published one that the folder is named after.

    Returns:
        None where neither is known, or the family is none that can be counted.

    Raises:
        PolicyLoadError: config.json cannot be read.
    """
    file = folder / "config.json"
    if file.is_file():
        return _from_config(file)
    return next((KNOWN_SHAPES[name] for name in KNOWN_SHAPES if folder.name.startswith(name)), None)


def _from_config(file: Path) -> ModelShape | None:
    try:
        values = _mapping(json.loads(read_file(file)))
        family = str(values.get("model_type"))
        if family not in _DENSE:
            return None
        hidden, heads = _whole(values, "hidden_size"), _whole(values, "num_attention_heads")
        return ModelShape(
            layers=_whole(values, "num_hidden_layers"),
            hidden=hidden,
            intermediate=_whole(values, "intermediate_size"),
            heads=heads,
            kv_heads=_whole(values, "num_key_value_heads", default=heads),
            head_dim=_whole(values, "head_dim", default=hidden // heads),
            vocabulary=_whole(values, "vocab_size"),
            tied=values.get("tie_word_embeddings") is True,
            family=family,
            dtype=str(values.get("dtype", values.get("torch_dtype"))),
        )
    except (OSError, ValueError) as error:
        message = f"{str(file)!r} could not be read: {error}"
        raise PolicyLoadError(message, path=file) from error


def _whole(values: Mapping[str, object], key: str, *, default: int | None = None) -> int:
    value = values.get(key)
    if value is None and default is not None:
        return default
    if not isinstance(value, int) or value < 1:
        raise ValueError(f"{key} must be a whole number of at least 1, not {value!r}")
    return value


def _mapping(values: object) -> Mapping[str, object]:
    if not isinstance(values, dict):
        raise ValueError(f"it holds {type(values).__name__}, not a JSON object")  # noqa: TRY004  # as below
    return cast("Mapping[str, object]", values)
