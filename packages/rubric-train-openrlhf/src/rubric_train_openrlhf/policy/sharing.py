"""Hidden states of responses, whose prompt is read once for a group where the model allows it.

Two ways give a model's own states, forward and backward: all of a batch in one row, whose attention
knows the groups (`grouped_attention`; float32 on a CPU), and prompts apart from their responses,
which are handed their keys and values. Whether an architecture takes them is tried against the
padded batch, on a few tokens and on the longest response; where neither is right, each response
reads its own prompt.
"""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, cast
from weakref import WeakKeyDictionary, WeakSet

import structlog
import torch
from torch import Tensor
from transformers import PreTrainedModel
from transformers.cache_utils import DynamicCache, DynamicLayer

from rubric_core.errors import shortened
from rubric_train_openrlhf.policy.forward_decoding import cache_name
from rubric_train_openrlhf.policy.grouped_attention import GroupedRow, row_states
from rubric_train_openrlhf.policy.holding import is_recomputed, is_recomputed_by_library
from rubric_train_openrlhf.policy.rollouts import (
    EncodedPrompt,
    TokenBatch,
    pack_responses,
)

_log = structlog.get_logger()

SHARING_ROWS = 2
"""Reading prompts apart from responses pays once each prompt serves this many rows."""
_EXACT = 1e-4
_ROUNDED = 0.2
"""Mean distance of hidden states to their spread: of each in float32, of all together in arithmetic
of 8 bits of mantissa."""


def response_states(
    model: PreTrainedModel, batch: TokenBatch, *, share_prompts: bool = True
) -> Tensor:
    """Run the model's body over a batch.

    Args:
        model: any Hugging Face causal language model.
        batch: B sequences on the model's device.
        share_prompts: read the prompt of several rows once where the architecture allows.

    Returns:
        Shape [N, H], one row per True in the response mask, in its order.
    """
    shares = share_prompts and has_groups(batch)
    return (shared_way(model, batch) if shares else padded)(model, batch)


def has_groups(batch: TokenBatch) -> bool:
    """Whether rows of a batch share a prompt."""
    return len(batch.prompts.encoded) < len(batch.prompt_index_B)


def body_of(model: PreTrainedModel) -> PreTrainedModel:
    """Find the model without its output embedding.

    `base_model` is the whole model where an architecture names a part that it does not have.
    """
    body = cast("PreTrainedModel", model.base_model)
    return body if body is not model else getattr(model, "model", model)


Way = Callable[[PreTrainedModel, TokenBatch], Tensor]


def padded(model: PreTrainedModel, batch: TokenBatch) -> Tensor:
    """Return hidden states where each response reads its own prompt."""
    hidden_BSH: Tensor = body_of(model)(input_ids=batch.input_ids_BS, use_cache=False)[
        0
    ]
    return hidden_BSH[batch.predicting_positions]


def grouped(model: PreTrainedModel, batch: TokenBatch) -> Tensor:
    """Return hidden states of one row that holds all prompts and responses once."""
    row = GroupedRow.of(batch)
    return row_states(body_of(model), row).index_select(0, row.predicting_N)


def handed(model: PreTrainedModel, batch: TokenBatch) -> Tensor:
    """Return hidden states where each response is handed the keys and values of its prompt."""
    prompts = batch.prompts
    index_B = batch.prompt_index_B
    body = body_of(model)
    cache = DynamicCache(config=model.config)
    cache_argument: dict[str, Any] = {str(cache_name(type(body).forward)): cache}
    prompt_PSH = body(
        input_ids=prompts.token_ids_PS,
        attention_mask=prompts.mask_PS.long(),
        position_ids=prompts.positions_PS,
        use_cache=True,
        **cache_argument,
    )[0]
    # Where indices repeat, only `index_select` adds gradients up in a fixed order.
    first_B1H: Tensor = prompt_PSH[:, -1:].index_select(0, index_B)
    read_BT = batch.response_tokens_BT[:, :-1]
    if read_BT.shape[1] == 0:
        return first_B1H[batch.response_mask_BT]
    for layer in cast("list[Any]", cache.layers):
        layer.keys = layer.keys.index_select(0, index_B)
        layer.values = layer.values.index_select(0, index_B)
    steps_T = torch.arange(read_BT.shape[1], device=read_BT.device)
    later_BTH = body(
        input_ids=read_BT,
        attention_mask=torch.cat(
            (prompts.mask_PS[index_B], torch.ones_like(read_BT)), dim=1
        ),
        position_ids=prompts.lengths_P[index_B, None] + steps_T,
        use_cache=True,
        **cache_argument,
    )[0]
    return torch.cat((first_B1H, later_BTH), dim=1)[batch.response_mask_BT]


def shared_way(model: PreTrainedModel, batch: TokenBatch) -> Way:
    """Find the fastest way that gives the model's own hidden states for a batch with groups."""
    longest = int(_row_lengths(batch).max())
    not_grouped = _no_grouped(model, longest) or _tried(model, batch, grouped, longest)
    if not not_grouped:
        return grouped
    if len(batch.prompts.encoded) * SHARING_ROWS > len(batch.prompt_index_B):
        return padded
    not_handed = _no_handed(model) or _tried(model, batch, handed, longest)
    if not not_handed:
        return handed
    tell_unshared(model, {"grouped": not_grouped, "handed": not_handed})
    return padded


def _row_lengths(batch: TokenBatch) -> Tensor:
    return batch.prompt_lengths_B + batch.response_mask_BT.sum(1)


def _no_grouped(model: PreTrainedModel, longest: int) -> str:
    """Say why no row of groups is tried; nothing where it is."""
    config: Any = cast("Any", model.config).get_text_config()
    if not _is_exact(model) or model.device.type != "cpu":
        return "not float32 on a CPU"
    if is_recomputed_by_library(model):
        return "the library recomputes its layers"
    if getattr(config, "_attn_implementation", None) not in {"sdpa", "eager"}:
        return f"attention {getattr(config, '_attn_implementation', None)!r}"
    kinds = set(cast("list[str]", getattr(config, "layer_types", None) or ()))
    if others := sorted(kinds - {"full_attention", "sliding_attention"}):
        return f"layers of {', '.join(others)}"
    windows = {name: getattr(config, name, None) for name in _WINDOWS}
    for name, window in windows.items():
        if isinstance(window, int) and longest > window:
            return f"{name} {window} is less than rows of {longest} tokens"
    return _no_positions(model)


_WINDOWS = ("sliding_window", "attention_chunk_size", "window_size")
"""Keys of config.json that bound what a token sees; what is in the bound sees all."""


def _no_handed(model: PreTrainedModel) -> str:
    """Say why keys and values are not handed on; nothing where it is tried."""
    if is_recomputed(model):
        return "layers are recomputed"  # keys and values would be written again
    layers = DynamicCache(config=model.config).layers
    if not all(type(layer) is DynamicLayer for layer in layers):
        return "a cache that is no list of keys and values"
    if cache_name(type(body_of(model)).forward) is None:
        return "no cache by a known name"
    return _no_positions(model)


def _no_positions(model: PreTrainedModel) -> str:
    accepted = inspect.signature(type(body_of(model)).forward).parameters
    return "" if "position_ids" in accepted else "takes no positions"


_TRIED: WeakKeyDictionary[torch.nn.Module, dict[str, str]] = WeakKeyDictionary()
_TOLD: WeakSet[torch.nn.Module] = WeakSet()
_LENGTHS = (4, 3)
_RESPONSES = (4, 2, 1)


def _tried(model: PreTrainedModel, batch: TokenBatch, way: Way, longest: int) -> str:
    """Say what is wrong with the hidden states of a way, trying each kind of batch once.

    What an architecture does beyond a length, a window or a scale by the position, shows in no few
    tokens: the longest response is tried too, once for each power of two.
    """
    known = _TRIED.setdefault(model, {})
    kind = f"{way.__name__} {_is_exact(model)}"
    tries: list[tuple[str, Callable[..., TokenBatch]]] = [(kind, _few)]
    if longest > max(_LENGTHS) + max(_RESPONSES):
        tries.append((f"{kind} {(longest - 1).bit_length()}", _longest))
    for name, tokens in tries:
        if name not in known:
            known[name] = _compared(model, tokens(model, batch), way)
            torch.clear_autocast_cache()  # as after sampling
        if known[name]:
            return known[name]
    return ""


def _few(model: PreTrainedModel, batch: TokenBatch) -> TokenBatch:
    ids = (batch.prompts.encoded[0].token_ids * max(_LENGTHS))[: max(_LENGTHS)]
    other = cast("list[int]", batch.response_tokens_BT[0, :1].tolist())  # pyright: ignore[reportUnknownMemberType]  # torch's
    prompts = [EncodedPrompt(ids[-length:]) for length in _LENGTHS]
    responses = [(*other, *ids)[:length] for length in _RESPONSES]
    row_prompts = [prompt for prompt in prompts for _ in responses]
    row_responses = responses * len(prompts)
    return pack_responses(row_prompts, row_responses, device=model.device)


def _longest(model: PreTrainedModel, batch: TokenBatch) -> TokenBatch:
    """The longest row of a batch, after another response to its prompt."""
    row = int(_row_lengths(batch).argmax())
    prompt = batch.prompts.encoded[int(batch.prompt_index_B[row])]
    tokens_T = batch.response_tokens_BT[row][batch.response_mask_BT[row]]
    response = cast("list[int]", tokens_T.tolist())  # pyright: ignore[reportUnknownMemberType]  # torch's
    responses = [response[: max(_RESPONSES)], response]
    return pack_responses([prompt] * len(responses), responses, device=model.device)


def _compared(model: PreTrainedModel, few: TokenBatch, way: Way) -> str:
    # A model's architecture is third-party code: its attention may raise anything.
    try:
        with torch.no_grad():
            found_NH = way(model, few).float()
            wanted_NH = padded(model, few).float()
    except torch.OutOfMemoryError:
        raise
    except Exception as error:  # noqa: BLE001
        return f"{type(error).__name__}: {shortened(' '.join(str(error).split()), 200)}"
    if not bool(wanted_NH.isfinite().all()):
        return ""  # whoever learns from it says so
    distance_N = (found_NH - wanted_NH).abs().mean(dim=1)
    off_N = distance_N / wanted_NH.std(dim=1).clamp(min=1e-6)
    # Rounding to 8 bits sends a token of many to another expert, in either way.
    is_close = off_N.max() <= _EXACT if _is_exact(model) else off_N.mean() <= _ROUNDED
    return "" if bool(is_close) else "other hidden states"


def _is_exact(model: PreTrainedModel) -> bool:
    is_cast = torch.is_autocast_enabled(model.device.type)
    return not is_cast and model.dtype is torch.float32


def tell_unshared(model: PreTrainedModel, reasons: Mapping[str, str]) -> None:
    """Say once of a model that every response reads its prompt, and why."""
    if model not in _TOLD:
        _TOLD.add(model)
        _log.warning(
            "policy.prompts.read_by_each_response",
            architecture=type(model).__name__,
            **reasons,
            why="an update is slow",
        )
