"""A policy built from nothing: a byte-level tokenizer and a Llama of about a million parameters.

For machines without a model at hand. The same texts, configuration and seed give the same policy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from tokenizers import Tokenizer as BackendTokenizer
from tokenizers import decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from rubric_train_openrlhf.policy.load import Policy
from rubric_train_openrlhf.policy.slots import SLOT_TOKENS, SlotCodec

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rubric_train_openrlhf.policy.codec import Tokenizer
    from rubric_train_openrlhf.policy_config import TinyConfig

_CONTROL_TOKENS = ("<pad>", "<bos>", "<eos>")
_PAD_ID, _BOS_ID, _EOS_ID = range(3)
_INITIAL_STD = 0.02


def build_tokenizer(texts: Iterable[str], vocab_size: int) -> Tokenizer:
    """Learn a byte-level BPE vocabulary with slot tokens.

    Args:
        texts: what the policy will read and write.
        vocab_size: at most this many tokens, of which 266 are bytes, slots and control tokens.

    Returns:
        A tokenizer that encodes any text without loss.
    """
    # The library types its classes loosely.
    tokenizer: Any = BackendTokenizer(models.BPE())
    byte_level: Any = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.pre_tokenizer = byte_level
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=[*_CONTROL_TOKENS, *SLOT_TOKENS],
        initial_alphabet=sorted(byte_level.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    pad, bos, eos = _CONTROL_TOKENS
    fast: Any = PreTrainedTokenizerFast(
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
    llama = LlamaConfig(
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
    generator = torch.Generator().manual_seed(seed)
    state = torch.get_rng_state()
    model = LlamaForCausalLM(llama)
    torch.set_rng_state(state)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0.0, _INITIAL_STD, generator=generator)
    return model.eval()


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
