"""Prompts, their judged responses, and the names by which the judge's side finds a judgement.

All that the policy's side learns of a judgement is a `Verdict`: its name, and a reward.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, cast
from uuid import uuid4
from weakref import WeakKeyDictionary

import structlog

from rubric_core import Answer, PolicyView, Reason, Thought, Unanswered, opens_thought
from rubric_core.files import open_file
from rubric_train_openrlhf.errors import ClusterError, TrainConfigError
from rubric_train_openrlhf.policy.completion import Completion, completion_of
from rubric_train_openrlhf.run.records import Timing
from rubric_train_openrlhf.run.writing import write_lines

if TYPE_CHECKING:
    from rubric_train_openrlhf.cluster.sampling.policy_run import PolicyRun
    from rubric_train_openrlhf.policy import ChatCodec

_PARTS = 3


@dataclass(frozen=True, slots=True)
class JudgementId:
    """Names a judgement, so that the judge's side finds it again, also after a restart.

    As text it is `task:key`, or `task!reason!number` of one that did not happen: nothing is
    stored for it, so its name carries the reason. Nor is anything of a response without an answer:
    it is `task?why`.
    """

    task_id: str
    """Whose response was judged."""
    key: str = ""
    """The judgement's key in the ledger; empty of one that did not happen."""
    reason: Reason | None = None
    """Why it did not happen."""
    number: str = ""
    """Tells those of one task and reason apart."""
    unanswered: Unanswered | None = None
    """Why there was nothing to judge."""

    @classmethod
    def failed(cls, task_id: str, reason: Reason) -> Self:
        """Name a judgement that did not happen."""
        return cls(task_id=task_id, reason=reason, number=uuid4().hex)

    @classmethod
    def read(cls, text: str) -> Self:
        """Read what `text` wrote.

        Raises:
            ValueError: it did not.
        """
        task_id, colon, key = text.partition(":")
        if colon:
            return cls(task_id=task_id, key=key)
        task_id, mark, why = text.partition("?")
        if mark:
            return cls(task_id=task_id, unanswered=Unanswered(why))
        parts = text.split("!")
        if len(parts) != _PARTS:
            raise ValueError(f"{text!r} is no name of a judgement")
        return cls(task_id=parts[0], reason=Reason(parts[1]), number=parts[2])

    @property
    def is_answer(self) -> bool:
        """Whether the engine finished the response, so that it is the policy's."""
        return self.reason is not Reason.NO_RESPONSE

    @property
    def text(self) -> str:
        """The name on one line."""
        if self.unanswered is not None:
            return f"{self.task_id}?{self.unanswered.value}"
        if self.reason is None:
            return f"{self.task_id}:{self.key}"
        return f"{self.task_id}!{self.reason.value}!{self.number}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """All that the policy's side learns of a judgement."""

    judgement: str
    """A `JudgementId` as text."""
    reward: float | None
    """The judge's, in [0, 1]; None where there is none and the response is left out."""

    @classmethod
    def unreachable(cls, task_id: str, reason: Reason) -> Self:
        """Say that the judge's side gave no answer."""
        return cls(JudgementId.failed(task_id, reason).text, None)


@dataclass(frozen=True)
class Prompt:
    """A row of a prompt dataset."""

    text: str
    """As the policy reads it."""
    task_id: str
    question: str


@dataclass(frozen=True)
class Sample:
    """One judged response."""

    experience: Any
    """OpenRLHF's `Experience` of this response alone."""
    judgement: JudgementId
    completion: Completion
    """The policy's text, and the judged part of it."""
    tokens: int
    """The end token included."""
    ended: bool
    """Whether it came to its end token. One that the engine left unfinished did not, and its
    judgement says so."""


@dataclass(frozen=True)
class Group:
    """All responses to one prompt."""

    prompt: Prompt
    samples: tuple[Sample, ...]

    @property
    def judgements(self) -> list[str]:
        """Names of the judgements."""
        return [sample.judgement.text for sample in self.samples]

    @property
    def lengths(self) -> list[int]:
        """Tokens of each response."""
        return [sample.tokens for sample in self.samples]

    @property
    def ended(self) -> list[bool]:
        """Whether each response came to its end token, and its thought to its end."""
        return [
            sample.ended and sample.completion.answer.thought is not Thought.UNCLOSED
            for sample in self.samples
        ]


@dataclass(frozen=True)
class Draw:
    """Groups in the order of their prompts, and what they took."""

    groups: list[Group]
    generated_tokens: int
    timing: Timing
    resent: int
    """Responses that were asked for again, because an engine died."""
    prompts: int
    """Drawn in all; more than there are groups where dynamic sampling dropped some."""


def write_prompts(
    path: Path,
    views: Sequence[PolicyView],
    *,
    codec: ChatCodec,
    source: Literal["train", "heldout"],
    max_prompt_tokens: int,
) -> None:
    """Write the dataset that OpenRLHF reads prompts from, in the order of the views.

    A row is `{"input", "label", "question"}`: the prompt as text that tokenizes to
    `encode_prompt` where no special token is added, the task id, and the question as it was asked.

    Args:
        path: of the file.
        views: what the policy may see of the tasks.
        codec: writes a prompt as the policy reads it.
        source: which dataset this is, for an error.
        max_prompt_tokens: longest prompt that leaves room for a response.

    Raises:
        TrainConfigError: a prompt is longer.
        DiskWriteError: the file could not be written.
    """
    lengths = {view.task_id: len(codec.encode_prompt(view).token_ids) for view in views}
    # OpenRLHF would cut them from the left: the policy would be asked something else.
    if too_long := {name: n for name, n in lengths.items() if n > max_prompt_tokens}:
        longest = max(too_long, key=too_long.__getitem__)
        raise TrainConfigError(
            f"{len(too_long)} of {len(views)} {source} prompts are longer than the "
            f"{max_prompt_tokens} tokens that rollout.max_new_tokens leaves of cluster.max_len; "
            f"the longest has {too_long[longest]} (task {longest}): raise cluster.max_len to it "
            "and the response together, leave such tasks out, or write them with less context "
            "(rubric-synth run --context, context.section_words)",
            location="cluster.max_len",
        )
    rows = (
        {
            "input": codec.prompt_text(view),
            "label": view.task_id,
            "question": view.question,
        }
        for view in views
    )
    write_lines(path, map(json.dumps, rows))


def read_prompts(path: Path) -> list[Prompt]:
    """Read a prompt dataset.

    Raises:
        ClusterError: there is none, or a row is damaged.
    """
    try:
        with open_file(path) as file:
            rows = [json.loads(line) for line in file]
        return [Prompt(row["input"], row["label"], row["question"]) for row in rows]
    except (OSError, ValueError, LookupError) as error:
        raise ClusterError(
            f"{str(path)!r} cannot be read as a prompt dataset ({type(error).__name__}); "
            "start the run again, which writes it anew"
        ) from error


_OF_LOOPS: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = (
    WeakKeyDictionary()
)
"""An engine's process has one event loop, and a semaphore belongs to one."""


def judge_slots(n: int) -> asyncio.Semaphore:
    """Limit the judge calls of this process; every caller in it gets the same limiter.

    It is not part of `agent.py`, which OpenRLHF executes anew for each executor that it makes.

    Args:
        n: most calls under way, which is the same for all of a run.

    Raises:
        RuntimeError: no event loop is running.
    """
    return _OF_LOOPS.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(n))


_log = structlog.get_logger()

_ENDED = "stop"
_ANSWERED = (_ENDED, "length", "repetition")
"""Reasons of vLLM's to finish that the policy gave. The others, `abort` and `error`, are the
engine's own."""
_TRIES = 3
"""For a response that the engine does not finish."""


@dataclass(frozen=True, slots=True)
class SampleRequest:
    """The request for one response."""

    prompt: str
    task_id: str
    sampling: Any
    """`vllm.SamplingParams`."""
    max_length: int
    """Longest prompt and response together, in tokens."""
    group: int = 0
    """Requests of a group go to one engine, which computes their prompt once."""


async def judged_sample(
    request: SampleRequest,
    *,
    tokenizer: Any,
    engine: Any,
    judge: Callable[[str, Answer], Awaitable[Verdict]],
    run: PolicyRun,
) -> dict[str, object]:
    """Generate a response and have it judged.

    Args:
        request: prompt, task and sampling.
        tokenizer: of the policy.
        engine: OpenRLHF's actor around an engine of vLLM.
        judge: judges by task id; never raises.
        run: says which tokens end a response, and how its thoughts are told from its answers.

    Returns:
        A rollout as OpenRLHF's executors give it. An invalid judgement is reward 0; one that did
        not happen is reward 0 too, and the label, its name, tells the coordinator to mask
        it. So does that of a response that the engine did not finish, which no judge sees.

    Raises:
        Exception: whatever the engine raises. No reward is made up for an engine that died.
    """
    prompt_ids = list(
        tokenizer(text=request.prompt, add_special_tokens=False)["input_ids"]
    )
    completion = await _completion(request, engine, prompt_ids)
    generated_s = time.perf_counter()
    tokens = list(completion.token_ids) if completion else []
    written = _written(request, tokens, tokenizer=tokenizer, run=run)
    if completion:
        verdict = await judge(request.task_id, written.answer)
    else:
        verdict = Verdict.unreachable(request.task_id, Reason.NO_RESPONSE)
    reward = verdict.reward or 0.0
    return {
        "prompt": request.prompt,
        "label": verdict.judgement,
        "images": None,
        "mm_train_inputs": None,
        "observation_tokens": prompt_ids + tokens,
        "action_ranges": [(len(prompt_ids), len(prompt_ids) + len(tokens))],
        "rollout_log_probs": _logprobs(completion, prompt_tokens=len(prompt_ids)),
        "truncated": completion is None or completion.finish_reason != _ENDED,
        "reward": reward,
        "scores": reward,
        "completion": written,
        "extra_logs": {"rubric/judge_s": time.perf_counter() - generated_s},
    }


def _written(
    request: SampleRequest, tokens: Sequence[int], *, tokenizer: Any, run: PolicyRun
) -> Completion:
    """Turn tokens into text as the policy's codec does: the judge reads no special token."""

    def decode(token_ids: Sequence[int], /, *, skip_special: bool) -> str:
        return cast(
            "str", tokenizer.decode(list(token_ids), skip_special_tokens=skip_special)
        )

    thoughts = run.thoughts
    opened = opens_thought(request.prompt, run.thoughts)
    return completion_of(
        tokens, decode, ends=run.end_token_ids, thoughts=thoughts, opened=opened
    )


async def _completion(
    request: SampleRequest, engine: Any, prompt_ids: list[int]
) -> Any:
    """Generate a response, and again where the engine leaves it unfinished.

    Returns:
        vLLM's completion; None where the engine never finished: what it left is nobody's answer.
    """
    sampling = deepcopy(request.sampling)
    room = max(1, request.max_length - len(prompt_ids))
    sampling.max_tokens = (
        room if sampling.max_tokens is None else min(sampling.max_tokens, room)
    )
    for left in reversed(range(_TRIES)):
        completion = (await engine.generate(prompt_ids, sampling)).outputs[0]
        if completion.finish_reason in _ANSWERED:
            return completion
        _log.warning(
            "cluster.response.unfinished",
            task_id=request.task_id,
            finish_reason=completion.finish_reason,
            tries_left=left,
        )
    return None


def _logprobs(completion: Any, *, prompt_tokens: int) -> list[float] | None:
    """The engine's log-probabilities of what it drew, 0 for the prompt; None if not asked for."""
    if completion is None:
        return [0.0] * prompt_tokens
    if completion.logprobs is None:
        return None
    drawn = zip(completion.token_ids, completion.logprobs, strict=True)
    return [0.0] * prompt_tokens + [float(at[token].logprob) for token, at in drawn]
