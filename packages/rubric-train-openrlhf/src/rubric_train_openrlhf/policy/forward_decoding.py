"""Step-by-step decoding by a model's own forward, in the fastest way that gives its own logits.

Which caches a model takes, under which name, and whether padding leaks into them, differs by
architecture and by release of the library, and a name that is not known is swallowed without an
error. So a way is not looked up but tried: on a few tokens, against a plain forward.
"""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, cast
from weakref import WeakKeyDictionary

import structlog
import torch
from torch import Tensor
from transformers import PreTrainedModel

from rubric_core.errors import shortened
from rubric_train_openrlhf.errors import PolicyInputError
from rubric_train_openrlhf.policy.rollouts import EncodedPrompt, PaddedPrompts, left_pad

_log = structlog.get_logger()
_CACHE_NAMES = ("cache", "past_key_values", "cache_params")
"""Names that a forward may have for its cache, the newest first."""


class Decoder(Protocol):
    """Rows that grow by a token at a time."""

    def start(self, prompts: PaddedPrompts, group_size: int) -> Tensor:
        """Read P prompts for G rows each; the logits [P·G, V] of each first response token."""
        ...

    def advance(self, tokens_N: Tensor) -> Tensor:
        """Append one token per row and give the logits [N, V] of the next."""
        ...

    def keep(self, rows_N: Tensor) -> None:
        """Go on with these rows alone."""
        ...


def cache_name(forward: Callable[..., Any]) -> str | None:
    """Return the name of a forward's cache; None where it takes none by a known name."""
    accepted = inspect.signature(forward).parameters
    return next((name for name in _CACHE_NAMES if name in accepted), None)


class _Forward:
    """A model's forward, with the inputs that it takes."""

    def __init__(self, model: PreTrainedModel) -> None:
        accepted = inspect.signature(type(model).forward).parameters
        self._model = model
        self._accepted = set(accepted)
        self._cache_name = cache_name(type(model).forward)
        self._options = {"logits_to_keep": 1} if "logits_to_keep" in accepted else {}

    def last_logits(self, token_ids: Tensor) -> Tensor:
        """Logits after the last token of rows of one length, without a cache."""
        return self._model(
            input_ids=token_ids, use_cache=False, **self._options
        ).logits[:, -1]

    def cached(
        self,
        token_ids: Tensor,
        *,
        cache: Any,
        mask: Tensor,
        positions: Tensor,
        seen: int | None = None,
    ) -> tuple[Tensor, Any]:
        """Logits after the last token, and the cache that holds all before.

        Raises:
            LookupError: the model takes no cache, or gives none.
        """
        if self._cache_name is None:
            raise LookupError("no cache among the inputs")
        inputs: dict[str, Any] = {
            "input_ids": token_ids,
            "attention_mask": mask,
            "position_ids": positions,
            self._cache_name: cache,
            "use_cache": True,
            **self._options,
        }
        if seen is not None and "cache_position" in self._accepted:
            inputs["cache_position"] = torch.arange(
                seen, seen + token_ids.shape[1], device=token_ids.device
            )
        if "position_ids" not in self._accepted:
            del inputs["position_ids"]
        output = self._model(**inputs)
        for name in _CACHE_NAMES:
            cache = getattr(output, name, None)
            if cache is not None:
                return output.logits[:, -1], cache
        raise LookupError("no cache among the outputs")


class SharedDecoder:
    """All prompts in one rectangle, each read once; their keys and values go to its G rows."""

    def __init__(self, model: PreTrainedModel) -> None:
        """Take the model as it is; nothing of it is changed."""
        self._forward = _Forward(model)
        self._cache: Any = None
        self._mask_NS = torch.empty(0)
        self._next_position_N = torch.empty(0)

    def start(self, prompts: PaddedPrompts, group_size: int) -> Tensor:
        """Read each prompt once, and share what was read with its group."""
        self._mask_NS = prompts.mask_PS.long()
        logits_PV = self._read(prompts.token_ids_PS, prompts.positions_PS)
        self._cache.batch_repeat_interleave(group_size)
        self._mask_NS = self._mask_NS.repeat_interleave(group_size, 0)
        self._next_position_N = prompts.lengths_P.repeat_interleave(group_size)
        return logits_PV.repeat_interleave(group_size, dim=0)

    def advance(self, tokens_N: Tensor) -> Tensor:
        """Append one token per row."""
        self._mask_NS = torch.nn.functional.pad(self._mask_NS, (0, 1), value=1)
        logits_NV = self._read(tokens_N[:, None], self._next_position_N[:, None])
        self._next_position_N = self._next_position_N + 1
        return logits_NV

    def keep(self, rows_N: Tensor) -> None:
        """Go on with these rows alone."""
        self._cache.batch_select_indices(rows_N)
        self._mask_NS = self._mask_NS[rows_N]
        self._next_position_N = self._next_position_N[rows_N]

    def _read(self, token_ids_NS: Tensor, positions_NS: Tensor) -> Tensor:
        logits_NV, self._cache = self._forward.cached(
            token_ids_NS, cache=self._cache, mask=self._mask_NS, positions=positions_NS
        )
        return logits_NV


@dataclass(slots=True)
class _Part:
    """Rows of one length, which no padding stands in."""

    places_N: Tensor
    """Places of its rows among all rows that are alive."""
    tokens_NS: Tensor
    """All tokens that were read."""
    cache: Any = None


class LengthwiseDecoder:
    """Prompts of one length at a time, without padding; each row reads its own prompt.

    For models whose state is a running sum of all that was read: padding would be part of it.
    """

    def __init__(self, model: PreTrainedModel, *, cached: bool) -> None:
        """Take the model as it is; without a cache, all of a row is read again for each token."""
        self._forward = _Forward(model)
        self._cached = cached
        self._parts: list[_Part] = []

    def start(self, prompts: PaddedPrompts, group_size: int) -> Tensor:
        """Read the prompt of every row."""
        lengths_N = prompts.lengths_P.repeat_interleave(group_size)
        tokens_NS = prompts.token_ids_PS.repeat_interleave(group_size, 0)
        for length in sorted(set(cast("list[int]", lengths_N.tolist()))):
            places_N = (lengths_N == length).nonzero()[:, 0]
            self._parts.append(_Part(places_N, tokens_NS[places_N, -length:]))
        return self._together(
            [self._read(part, part.tokens_NS) for part in self._parts]
        )

    def advance(self, tokens_N: Tensor) -> Tensor:
        """Append one token per row."""
        logits: list[Tensor] = []
        for part in self._parts:
            new_N1 = tokens_N[part.places_N, None]
            part.tokens_NS = torch.cat((part.tokens_NS, new_N1), dim=1)
            logits.append(self._read(part, new_N1))
        return self._together(logits)

    def keep(self, rows_N: Tensor) -> None:
        """Go on with these rows alone."""
        kept: list[_Part] = []
        for part in self._parts:
            # Row i of those that stay was row `rows_N[i]`.
            stays_NK = part.places_N[None] == rows_N[:, None]
            places_N, own_N = stays_NK.nonzero(as_tuple=True)
            if len(places_N) == 0:
                continue
            if part.cache is not None:
                part.cache.reorder_cache(own_N)
            kept.append(_Part(places_N, part.tokens_NS[own_N], part.cache))
        self._parts = kept

    def _read(self, part: _Part, new_NS: Tensor) -> Tensor:
        if not self._cached:
            return self._forward.last_logits(part.tokens_NS)
        total = part.tokens_NS.shape[1]
        seen = part.tokens_NS.shape[1] - new_NS.shape[1]
        positions_S = torch.arange(seen, total, device=new_NS.device)
        logits_NV, part.cache = self._forward.cached(
            new_NS,
            cache=part.cache,
            mask=torch.ones_like(part.tokens_NS),
            positions=positions_S.expand(len(new_NS), -1),
            seen=seen,
        )
        return logits_NV

    def _together(self, logits: Sequence[Tensor]) -> Tensor:
        """Bring the parts' rows into the order of all rows."""
        order_N = torch.cat([part.places_N for part in self._parts])
        return torch.cat(list(logits))[order_N.argsort()]


def _reads_apart(model: PreTrainedModel) -> LengthwiseDecoder:
    return LengthwiseDecoder(model, cached=True)


def _reads_again(model: PreTrainedModel) -> LengthwiseDecoder:
    return LengthwiseDecoder(model, cached=False)


_WAYS = (SharedDecoder, _reads_apart, _reads_again)
_CHOSEN: Final[
    WeakKeyDictionary[torch.nn.Module, Callable[[PreTrainedModel], Decoder]]
] = WeakKeyDictionary()


def forward_decoder(model: PreTrainedModel, prompts: PaddedPrompts) -> Decoder:
    """Make the fastest decoder that gives the model's own logits.

    Args:
        model: any causal language model.
        prompts: that it will be asked; a few of their tokens are what it is tried on, once.

    Raises:
        PolicyInputError: none does, not even one that reads all of each row again.
    """
    way = _CHOSEN.get(model)
    if way is None:
        way = _CHOSEN[model] = _chosen(model, prompts)
    return way(model)


_LENGTHS = (5, 3)
_GROUP = 2
_STEPS = 2
_FEW_ROWS = (3, 0)
"""Rows of the trial that go on for one more token, in another order."""
_EXACT = 1e-4
_ROUNDED = 0.2
"""Mean distance of logits to their spread, in float32 and in 8 or 11 bits of mantissa. A state that
is updated by another formula than whole rows are read by is farther off than float32 rounds."""


def _chosen(
    model: PreTrainedModel, prompts: PaddedPrompts
) -> Callable[[PreTrainedModel], Decoder]:
    ids = prompts.encoded[0].token_ids
    longest = (ids * max(_LENGTHS))[: max(_LENGTHS)]
    trial_prompts = [EncodedPrompt(longest[:length]) for length in _LENGTHS]
    rows = [
        [ids[(row + step) % len(ids)] for step in range(_STEPS + 1)] for row in range(4)
    ]
    tokens_NT = torch.tensor(rows, device=model.device)
    expected = _plain(model, trial_prompts, tokens_NT)
    failures: list[str] = []
    for way in _WAYS:
        # A model's architecture is third-party code: its cache may raise anything.
        try:
            padded = left_pad(trial_prompts, pad_token_id=ids[0], device=model.device)
            logits = _stepwise(way(model), padded, tokens_NT)
        except torch.OutOfMemoryError:
            raise
        except Exception as error:  # noqa: BLE001
            message = shortened(" ".join(str(error).split()), 200)
            failures.append(f"{type(error).__name__}: {message}")
            continue
        if _agree(logits, expected, tolerance=_tolerance(model)):
            if way is _reads_again:
                _log.warning(
                    "policy.sampling.without_cache",
                    architecture=type(model).__name__,
                    failures=failures,
                    why="sampling is slow",
                )
            return way
        failures.append("other logits than a plain forward")
    raise PolicyInputError(
        f"{type(model).__name__} cannot be sampled from: token by token it gives other logits "
        f"than a plain forward over the row ({'; '.join(failures)}); use another architecture, "
        "or another release of transformers"
    )


def _plain(
    model: PreTrainedModel, prompts: Sequence[EncodedPrompt], tokens_NT: Tensor
) -> Tensor:
    """Return the logits after each prompt, then those of the rows that go on, row by row."""
    logits: list[Tensor] = []
    forward = _Forward(model)
    for prompt in prompts:
        ids = torch.tensor([prompt.token_ids], device=tokens_NT.device)
        logits += [forward.last_logits(ids)] * _GROUP
    for row in _FEW_ROWS:
        ids = torch.tensor([prompts[row // _GROUP].token_ids], device=tokens_NT.device)
        whole_row = torch.cat((ids, tokens_NT[row : row + 1]), dim=1)
        logits.append(forward.last_logits(whole_row))
    return torch.cat(logits).float()


def _stepwise(decoder: Decoder, prompts: PaddedPrompts, tokens_NT: Tensor) -> Tensor:
    """Return the same logits by a decoder."""
    first = decoder.start(prompts, _GROUP)
    for step in range(_STEPS):
        decoder.advance(tokens_NT[:, step])
    rows_N = torch.tensor(_FEW_ROWS, device=tokens_NT.device)
    decoder.keep(rows_N)
    return torch.cat((first, decoder.advance(tokens_NT[rows_N, -1]))).float()


def _tolerance(model: PreTrainedModel) -> float:
    device = model.device.type
    is_cast = torch.is_autocast_enabled(device)
    dtype = torch.get_autocast_dtype(device) if is_cast else model.dtype
    return _EXACT if dtype in {torch.float32, torch.float64} else _ROUNDED


def _agree(logits: Tensor, expected: Tensor, *, tolerance: float) -> bool:
    if not bool(expected.isfinite().all()):
        return True  # sampling reports it
    distance_N = (logits - expected).abs().mean(dim=1)
    spread_N = expected.std(dim=1).clamp(min=1e-6)
    return bool((distance_N <= tolerance * spread_N).all())
