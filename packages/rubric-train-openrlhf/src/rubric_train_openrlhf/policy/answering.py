"""Answers for an evaluation: every row has a seed, a limit and an end of its own.

Apart from `sampling`, which draws groups to learn from and keeps the log-probability of each token.
"""

import threading
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import cast

import torch

from rubric_core import Ask, Decoding, Finish, PolicyView, Reason, Reply
from rubric_judge.ui.reporting import Report
from rubric_train_openrlhf.errors import NonFiniteLogitsError
from rubric_train_openrlhf.policy import distribution
from rubric_train_openrlhf.policy.holding import hold_rope
from rubric_train_openrlhf.policy.load import Policy
from rubric_train_openrlhf.policy.logprobs import response_logprobs
from rubric_train_openrlhf.policy.rollouts import (
    EncodedPrompt,
    left_pad,
    pack_responses,
)
from rubric_train_openrlhf.policy.sampling import COMPACT_FRAC, LiveRows, evaluating

_STOP_EVERY = 16


@dataclass(frozen=True, slots=True)
class Question:
    """A prompt, and the asks for an answer to it by index."""

    prompt: EncodedPrompt
    asks: tuple[int, ...]
    choices: tuple[str, ...]
    """Texts of which the likeliest is the answer; empty where it is to be written."""


@dataclass(slots=True)
class _Answer:
    """One answer while it grows."""

    index: int
    ask: Ask
    most: int
    """Tokens after which it is cut, ≥ 1."""
    tokens: list[int] = field(default_factory=list[int])
    ended: bool = False
    """Whether the end token, or a text that ends an answer, has come."""

    @property
    def is_done(self) -> bool:
        """Whether nothing more is drawn."""
        return self.ended or len(self.tokens) >= self.most


def _unanswered(
    batch: Sequence[Question], reported: AbstractSet[int]
) -> list[Question]:
    """Return the questions without a reply, one for each ask."""
    return [
        replace(question, asks=(index,))
        for question in batch
        for index in question.asks
        if index not in reported
    ]


class Answers:
    """The answers to the questions of one call, the same whatever else is in a batch."""

    def __init__(self, policy: Policy, asks: Sequence[Ask], decoding: Decoding) -> None:
        """Encode the questions."""
        self._policy = policy
        self._asks = asks
        self._decoding = decoding
        alike: defaultdict[tuple[PolicyView, tuple[str, ...]], list[int]] = defaultdict(
            list
        )
        for index, ask in enumerate(asks):
            alike[ask.view, tuple(ask.choices)].append(index)
        self._questions = [
            Question(policy.codec.encode_prompt(view), tuple(indices), choices)
            for (view, choices), indices in alike.items()
        ]
        positions = getattr(
            policy.model.config.get_text_config(), "max_position_embeddings", None
        )
        self._positions: int | None = positions if isinstance(positions, int) else None
        held = hold_rope(policy.model)
        # The most tokens that a prompt and its answer may have.
        lengths = (
            len(question.prompt.token_ids) + self._most(question)
            for question in self._questions
        )
        if held is not None and max(lengths, default=0) > held:
            hold_rope(policy.model, longest=self._positions)

    def write(self, batch_size: int, report: Report[tuple[int, Reply]]) -> None:
        """Answer everything, shortest prompts first.

        Args:
            batch_size: answers written at once; does not change them.
            report: called with each reply, and the index of its ask, once it is finished; between
                two tokens it is looked at for whether anybody waits.
        """
        for question in self._questions:
            if self._most(question) < 1:
                reply = Reply.too_long(len(question.prompt.token_ids), self._positions)
                for index in question.asks:
                    report((index, reply))
        for batch in self._batches(batch_size):
            self._write(batch, report)

    def _batches(self, batch_size: int) -> Iterator[list[Question]]:
        """Put prompts of like lengths and equally many asks together."""
        by_size: defaultdict[tuple[int, bool], list[Question]] = defaultdict(list)
        for question in self._questions:
            if self._most(question) >= 1:
                for first in range(0, len(question.asks), batch_size):
                    part = question.asks[first : first + batch_size]
                    by_size[len(part), bool(question.choices)].append(
                        replace(question, asks=part)
                    )
        for (size, _), questions in sorted(by_size.items()):
            questions.sort(key=lambda question: len(question.prompt.token_ids))
            at_once = max(batch_size // size, 1)
            for first in range(0, len(questions), at_once):
                yield questions[first : first + at_once]

    def _chosen(self, question: Question) -> Reply:
        """Ask how likely each choice is after the prompt, without an end token."""
        policy = self._policy
        view = self._asks[question.asks[0]].view
        texts = [
            policy.codec.encode_answer(view, choice)[:-1] for choice in question.choices
        ]
        longest = len(question.prompt.token_ids) + max(len(text) for text in texts)
        if self._positions is not None and longest > self._positions:
            return Reply.too_long(longest, self._positions)
        batch = pack_responses(
            [question.prompt] * len(texts), texts, device=policy.device
        )
        with evaluating(policy.model), torch.inference_mode():
            logprobs_B = response_logprobs(policy.model, batch).logprobs_BT.sum(dim=1)
        return Reply.chosen(question.choices, cast("list[float]", logprobs_B.tolist()))

    def _write(
        self, batch: Sequence[Question], report: Report[tuple[int, Reply]]
    ) -> None:
        """Answer a batch; where memory runs out, the rest of it in halves."""
        reported: set[int] = set()
        try:
            for index, reply in self._replies(batch, report.left):
                reported.add(index)
                report((index, reply))
        except torch.OutOfMemoryError as error:
            left = _unanswered(batch, reported)
            if len(left) > 1:
                half = len(left) // 2
                for part in (left[:half], left[half:]):
                    self._write(part, report)
                return
            detail = f"out of memory: {str(error).partition('. ')[0]}"
        except NonFiniteLogitsError as error:
            detail = str(error)
        else:
            return
        for question in _unanswered(batch, reported):
            (index,) = question.asks
            report((index, Reply.unavailable(Reason.SERVER_ERROR, detail)))

    def _replies(
        self, batch: Sequence[Question], left: threading.Event
    ) -> Iterator[tuple[int, Reply]]:
        """Yield each reply as it is done."""
        if batch[0].choices:
            for question in batch:
                reply = self._chosen(question)
                yield from ((index, reply) for index in question.asks)
        else:
            for answer in self._written(batch, left):
                yield answer.index, self._reply(answer)

    def _written(
        self, batch: Sequence[Question], left: threading.Event
    ) -> Iterator[_Answer]:
        """Draw the tokens of a batch, each answer's by its own seed, and yield each as it is done.

        Raises:
            NonFiniteLogitsError: the model's scores are not finite numbers.
        """
        model = self._policy.model
        codec = self._policy.codec
        growing = [
            _Answer(index, self._asks[index], self._most(question))
            for question in batch
            for index in question.asks
        ]
        most = max(answer.most for answer in growing)
        seeded = (torch.Generator().manual_seed(answer.ask.seed) for answer in growing)
        uniform_NT = torch.stack(
            [torch.rand(most, generator=generator) for generator in seeded]
        )
        uniform_NT = uniform_NT.to(model.device)
        with evaluating(model), torch.inference_mode():
            prompts = [question.prompt for question in batch]
            padded = left_pad(
                prompts, pad_token_id=codec.pad_token_id, device=model.device
            )
            rows = LiveRows(
                model, padded, group_size=len(batch[0].asks), max_tokens=most
            )
            for step in range(most):
                if left.is_set():
                    return
                tokens_N = self._drawn(rows, uniform_NT[:, step])
                looks = step % _STOP_EVERY == _STOP_EVERY - 1
                yield from self._appended(growing, tokens_N, looks=looks)
                live = [
                    number
                    for number, answer in enumerate(growing)
                    if not answer.is_done
                ]
                if not live:
                    return
                kept_N = None
                if len(growing) - len(live) >= COMPACT_FRAC * len(growing):
                    kept_N = torch.tensor(live, device=model.device)
                    growing = [growing[number] for number in live]
                    uniform_NT = uniform_NT[kept_N]
                rows.advance(tokens_N, kept_N)

    def _drawn(self, rows: LiveRows, uniform_N: torch.Tensor) -> torch.Tensor:
        """Draw the next token of each row."""
        decoding = self._decoding
        scores_NV = rows.scores(decoding.temperature)
        if decoding.temperature == 0:
            return distribution.most_likely(scores_NV).tokens_N
        scores_NV = distribution.narrowed(
            scores_NV, top_p=decoding.top_p, top_k=decoding.top_k
        )
        return distribution.by_uniform(scores_NV, uniform_N)

    def _appended(
        self, growing: Sequence[_Answer], tokens_N: torch.Tensor, *, looks: bool
    ) -> Iterator[_Answer]:
        """Let each answer grow by its token; look now and then for texts that end an answer.

        Yields:
            Those that are done now.
        """
        codec = self._policy.codec
        tokens = cast("list[int]", tokens_N.tolist())  # pyright: ignore[reportUnknownMemberType]  # torch's
        for answer, token in zip(growing, tokens, strict=True):
            if answer.is_done:
                continue
            answer.tokens.append(token)
            answer.ended = token in codec.end_token_ids
            if looks and self._decoding.stop and not answer.ended:
                text = codec.completion(answer.ask.view, answer.tokens).text
                answer.ended = self._stop_at(text) is not None
            if answer.is_done:
                yield answer

    def _reply(self, answer: _Answer) -> Reply:
        """Take the answer out of a completion, which a stop ends within a thought too."""
        codec = self._policy.codec
        view = answer.ask.view
        tokens = answer.tokens
        ended = answer.ended
        written = codec.completion(view, tokens)

        def stops(n: int) -> bool:
            return self._stop_at(codec.completion(view, tokens[:n]).text) is not None

        if self._stop_at(written.text) is not None:
            # Tokens were drawn beyond it: the first that completes the stop is its last.
            tokens = tokens[: bisect_left(range(len(tokens)), x=True, lo=1, key=stops)]
            written = codec.completion(view, tokens)
            ended = True
        text = written.answer.text[: self._stop_at(written.answer.text)]
        return Reply.of_completion(
            written.answer._replace(text=text),
            finish=Finish.COMPLETE if ended else Finish.TRUNCATED,
            tokens=len(tokens),
        )

    def _stop_at(self, text: str) -> int | None:
        """Return the place of the first text that stops an answer; None where there is none."""
        places = [text.find(stop) for stop in self._decoding.stop]
        return min((place for place in places if place >= 0), default=None)

    def _most(self, question: Question) -> int:
        """Return the most tokens of an answer; below 1 where the prompt alone does not fit."""
        if self._positions is None:
            return self._decoding.max_tokens
        room = self._positions - len(question.prompt.token_ids)
        return min(self._decoding.max_tokens, room)
