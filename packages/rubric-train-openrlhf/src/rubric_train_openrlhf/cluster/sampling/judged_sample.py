"""One response: generated, judged the moment it is there, and laid out for OpenRLHF."""

from __future__ import annotations

import asyncio
import time
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol
from weakref import WeakKeyDictionary

import structlog

from rubric_core import Reason
from rubric_train_openrlhf.cluster.sampling.groups import Verdict

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence


_OF_LOOPS: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()
"""An engine's process has one event loop, and a semaphore belongs to one."""


def judge_places(n: int) -> asyncio.Semaphore:
    """Limit the judge calls of this process; every caller in it gets the same limiter.

    It is no part of `agent.py`, which OpenRLHF executes anew for each executor that it makes.

    Args:
        n: most calls under way, which is the same for all of a run.

    Raises:
        RuntimeError: no event loop is running.
    """
    return _OF_LOOPS.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(n))


_log = structlog.get_logger()

_ENDED: Final = "stop"
_ANSWERED: Final = (_ENDED, "length", "repetition")
"""Reasons of vLLM's to finish that the policy gave. The others, `abort` and `error`, are the
engine's own."""
_TRIES: Final = 3
"""For a response that the engine does not finish."""


class Completion(Protocol):
    """What vLLM says of one generated response, as far as it is used here."""

    token_ids: Sequence[int]
    logprobs: Sequence[Mapping[int, Any]] | None
    finish_reason: str | None


@dataclass(slots=True)
class _Unfinished:
    """A `Completion` without a token: what the engine left behind is nobody's answer."""

    token_ids: Sequence[int] = ()
    logprobs: Sequence[Mapping[int, Any]] | None = ()
    finish_reason: str | None = None


class Engine(Protocol):
    """OpenRLHF's actor around an engine of vLLM."""

    async def generate(self, prompt_token_ids: list[int], sampling_params: object, /) -> Any:
        """Generate one response; its `outputs` hold one `Completion`."""
        ...


@dataclass(frozen=True, slots=True)
class Asked:
    """What one response is asked for with."""

    prompt: str
    task_id: str
    sampling: Any
    """`vllm.SamplingParams`."""
    max_length: int
    """Longest prompt and response together, in tokens."""


async def judged_sample(
    asked: Asked,
    *,
    tokenizer: Any,
    engine: Engine,
    judge: Callable[[str, str], Awaitable[Verdict]],
) -> dict[str, object]:
    """Generate a response and have it judged.

    Args:
        asked: prompt, task and sampling.
        tokenizer: of the policy.
        engine: generates.
        judge: judges by task id; never raises.

    Returns:
        A rollout as OpenRLHF's executors give it. An invalid judgement is reward 0; one that did
        not happen is reward 0 too, and the label, its name, tells the coordinator to mask
        it. So does that of a response that the engine did not finish, which no judge sees.

    Raises:
        Exception: whatever the engine raises. No reward is made up for an engine that died.
    """
    prompt_ids = list(tokenizer(text=asked.prompt, add_special_tokens=False)["input_ids"])
    completion = await _completion(asked, engine, prompt_ids)
    generated_s = time.perf_counter()
    tokens = list(completion.token_ids)
    # As the policy's codec decodes: the judge reads no special token.
    response = tokenizer.decode(tokens, skip_special_tokens=True).strip()
    if _is_answer(completion):
        verdict = await judge(asked.task_id, response)
    else:
        verdict = Verdict.unreachable(asked.task_id, Reason.NO_RESPONSE)
    reward = 0.0 if verdict.reward is None else verdict.reward
    return {
        "prompt": asked.prompt,
        "label": verdict.judgement,
        "images": None,
        "mm_train_inputs": None,
        "observation_tokens": prompt_ids + tokens,
        "action_ranges": [(len(prompt_ids), len(prompt_ids) + len(tokens))],
        "rollout_log_probs": _logprobs(completion, prompt_tokens=len(prompt_ids)),
        "truncated": completion.finish_reason != _ENDED,
        "reward": reward,
        "scores": reward,
        "text": response,
        "extra_logs": {"rubric/judge_s": time.perf_counter() - generated_s},
    }


async def _completion(asked: Asked, engine: Engine, prompt_ids: list[int]) -> Completion:
    """Generate a response, and again where the engine leaves it unfinished."""
    sampling = _with_room(asked, used=len(prompt_ids))
    for left in reversed(range(_TRIES)):
        completion: Completion = (await engine.generate(prompt_ids, sampling)).outputs[0]
        if _is_answer(completion):
            return completion
        _log.warning(
            "cluster.response.unfinished",
            task_id=asked.task_id,
            finish_reason=completion.finish_reason,
            tries_left=left,
        )
    return _Unfinished()


def _is_answer(completion: Completion) -> bool:
    return completion.finish_reason in _ANSWERED


def _with_room(asked: Asked, *, used: int) -> Any:
    """Sampling parameters of this response alone, with no more tokens than there is room for."""
    sampling = deepcopy(asked.sampling)
    room = max(1, asked.max_length - used)
    sampling.max_tokens = room if sampling.max_tokens is None else min(sampling.max_tokens, room)
    return sampling


def _logprobs(completion: Completion, *, prompt_tokens: int) -> list[float] | None:
    """The engine's log-probabilities of what it drew, 0 for the prompt; None if not asked for."""
    if completion.logprobs is None:
        return None
    drawn = zip(completion.token_ids, completion.logprobs, strict=True)
    return [0.0] * prompt_tokens + [float(at[token].logprob) for token, at in drawn]
