"""Hidden states from which each response token is predicted, with gradients."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, cast

import torch
from transformers.cache_utils import DynamicCache, DynamicLayer

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from rubric_train_openrlhf.policy.batches import TokenBatch

# Reading prompts apart from responses pays once each prompt serves this many rows.
_SHARING_ROWS = 2


def response_states(model: PreTrainedModel, batch: TokenBatch) -> torch.Tensor:
    """Run the model's body over a batch.

    Rows of one group share their prompt: where the architecture allows, it is read once and its
    keys and values are handed to each response, gradients included.

    Args:
        model: any Hugging Face causal language model.
        batch: B sequences on the model's device.

    Returns:
        Shape [N, H], one row per True in the response mask, in its order.
    """
    if _can_share(model, batch):
        return _shared(model, batch)[batch.response_mask_BT]
    hidden_BSH: torch.Tensor = model.base_model(input_ids=batch.input_ids_BS, use_cache=False)[0]
    return hidden_BSH[batch.predicting_positions]


def _can_share(model: PreTrainedModel, batch: TokenBatch) -> bool:
    if len(batch.prompts.mask_PS) * _SHARING_ROWS > len(batch.prompt_index_B):
        return False
    if model.training and model.is_gradient_checkpointing:
        return False  # which forgets keys and values between the two parts
    layers = DynamicCache(config=model.config).layers
    takes_positions = "position_ids" in inspect.signature(type(model.base_model).forward).parameters
    return takes_positions and all(type(layer) is DynamicLayer for layer in layers)


def _shared(model: PreTrainedModel, batch: TokenBatch) -> torch.Tensor:
    prompts, index_B = batch.prompts, batch.prompt_index_B
    cache = DynamicCache(config=model.config)
    prompt_PSH = model.base_model(
        input_ids=prompts.token_ids_PS,
        attention_mask=prompts.mask_PS.long(),
        position_ids=prompts.positions_PS,
        past_key_values=cache,
        use_cache=True,
    )[0]
    # Where indices repeat, only `index_select` adds gradients up in a fixed order.
    first_B1H: torch.Tensor = prompt_PSH[:, -1:].index_select(0, index_B)
    read_BT = batch.response_tokens_BT[:, :-1]
    if read_BT.shape[1] == 0:
        return first_B1H
    for layer in cast("list[Any]", cache.layers):
        layer.keys = layer.keys.index_select(0, index_B)
        layer.values = layer.values.index_select(0, index_B)
    steps_T = torch.arange(read_BT.shape[1], device=read_BT.device)
    later_BTH = model.base_model(
        input_ids=read_BT,
        attention_mask=torch.cat((prompts.mask_PS[index_B], torch.ones_like(read_BT)), dim=1),
        position_ids=prompts.lengths_P[index_B, None] + steps_T,
        past_key_values=cache,
        use_cache=True,
    )[0]
    return torch.cat((first_B1H, later_BTH), dim=1)
