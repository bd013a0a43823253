"""Calls for one document and their answers: no question is asked twice, over any restart."""

from __future__ import annotations

import hashlib
import json
import math
import uuid
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import lru_cache
from typing import Any

from pydantic import BaseModel, Field

from rubric_core import Judge, JudgeResult, JudgeView, Outcome, Usage
from rubric_judge import ChatModel, ChatReply, JudgeTransportError
from rubric_judge.judges.capabilities import Immediate, fingerprint
from rubric_judge.models.chat import Finish
from rubric_judge.models.limits import Limited
from rubric_synth.config import Frozen, Stage


class CallRecord(Frozen):
    """One call of a model or judge that was answered or paid for; its `repr` shows no text."""

    key: str
    """Hash of all that may change the answer."""
    stage: Stage
    """The step that asked."""
    text: str = Field(repr=False)
    """The model's reply as it came, or the judge's result as JSON."""
    finish: Finish = "complete"
    """How the reply ended."""
    usage: Usage | None = None
    """Tokens and cost of all attempts."""
    attempts: int = 1
    """Number of attempts."""
    fallback: str = ""
    """The group of a `litellm_config` that answered in place of the one that was asked."""
    answered: bool = True
    """False where tokens were paid for and no answer came: the question is asked again."""


class CallTotals(Frozen):
    """Totals of several calls."""

    calls: int = 0
    """Answered calls."""
    attempts: int = 0
    """Attempts of answered calls."""
    prompt_tokens: int = 0
    """Tokens read."""
    completion_tokens: int = 0
    """Tokens written."""
    cost_usd: float = 0.0
    """Cost of the calls with a known price."""
    unpriced_calls: int = 0
    """Calls without a known price."""
    fallback_calls: int = 0
    """Answered calls that a fallback of a `litellm_config` answered: another model, perhaps."""

    @classmethod
    def of(cls, records: Sequence[CallRecord]) -> CallTotals:
        """Add up calls; in whatever order they were answered, the sum is the same."""
        costs = [record.usage.cost_usd if record.usage else None for record in records]
        total = sum(map(cls.of_call, records, costs), cls())
        cost_usd = math.fsum(cost_usd for cost_usd in costs if cost_usd is not None)
        return total.model_copy(update={"cost_usd": cost_usd})

    @classmethod
    def of_call(cls, record: CallRecord, cost_usd: float | None) -> CallTotals:
        """Return the totals of one call, at its price if that is known."""
        usage = record.usage or Usage()
        return cls(
            calls=record.answered,
            attempts=record.attempts,
            prompt_tokens=usage.prompt_tokens,
            completion_tokens=usage.completion_tokens,
            cost_usd=cost_usd or 0.0,
            unpriced_calls=cost_usd is None,
            fallback_calls=bool(record.fallback),
        )

    @property
    def cost(self) -> str:
        """Cost in words, as far as the prices are known."""
        if self.unpriced_calls and self.unpriced_calls >= self.calls:
            return "cost not known (no `prices:`)"
        cost = f"{self.cost_usd:.4g} USD"
        if self.unpriced_calls:
            cost += f" and {self.unpriced_calls} calls without a known price"
        return cost

    def __add__(self, other: CallTotals) -> CallTotals:
        return CallTotals(
            **{name: amount + getattr(other, name) for name, amount in self}
        )

    def __sub__(self, other: CallTotals) -> CallTotals:
        """Return what is left; nothing is below 0."""
        return CallTotals(
            **{name: max(0, amount - getattr(other, name)) for name, amount in self}
        )


class DocumentCalls:
    """The calls of one document: known answers first, the model for the rest."""

    def __init__(
        self,
        known: Iterable[CallRecord] = (),
        *,
        permit: Callable[[], AbstractContextManager[object]] = nullcontext,
        on_answer: Callable[[CallRecord], None] = lambda _: None,
    ) -> None:
        """Start from what was answered before.

        Args:
            known: records of earlier runs.
            permit: called before each new call and entered around it; raises where none may
                be made any more.
            on_answer: given each new record before its answer is used; also one of what a call
                without an answer cost.
        """
        self._known = {record.key: record for record in known}
        self._permit = permit
        self._on_answer = on_answer
        self._used: dict[Stage, dict[str, CallRecord]] = {}
        self._interruption: Exception | None = None

    @property
    def totals(self) -> dict[Stage, CallTotals]:
        """Totals of each stage, known answers included."""
        return {
            stage: CallTotals.of([*used.values()]) for stage, used in self._used.items()
        }

    def raise_interruption(self) -> None:
        """Raise again the error that `permit` or `on_answer` raised, if a stage swallowed it.

        Raises:
            CallsStoppedError: no further call may be made.
            SynthError: an answer could not be kept.
        """
        if self._interruption is not None:
            raise self._interruption

    async def ask(
        self,
        model: ChatModel,
        *,
        stage: Stage,
        system: str,
        user: str,
        reply: type[BaseModel],
    ) -> ChatReply:
        """Ask a model, unless the same was answered before; see `ChatModel.complete`.

        Raises:
            JudgeTransportError: no answer came.
        """
        key = _with_texts(_shared_key(model, stage, reply), system, user)
        record = self._known.get(key)
        if record is None:
            with self._permitted():
                try:
                    # Questions about one document begin alike, with its mark: they go to one
                    # replica, whose cache then holds it.
                    answer = await model.complete(
                        system=system, user=user, reply=reply, affinity=user[:200]
                    )
                except JudgeTransportError as error:
                    self._used_up(stage, error.usage, error.attempts)
                    raise
            record = CallRecord(
                key=key,
                stage=stage,
                text=answer.text,
                finish=answer.finish,
                usage=answer.usage,
            )
            record = self._new(record, answer)
        self.count(record)
        return ChatReply(
            text=record.text,
            finish=record.finish,
            usage=record.usage,
            attempts=record.attempts,
        )

    async def judge(self, judge: Judge, view: JudgeView) -> JudgeResult:
        """Judge a response, unless the same was judged before; an unavailable one is not kept."""
        if isinstance(judge, Immediate):
            # A program is cheaper to run again than to remember.
            return judge.judge_now(view)
        key = _hash([fingerprint(judge), view.task_id, view.response])
        if (record := self._known.get(key)) is not None:
            self.count(record)
            return JudgeResult.model_validate_json(record.text)
        with self._permitted():
            result = await judge.judge(view)
        if result.outcome is Outcome.UNAVAILABLE:
            self._used_up("quality", result.usage, result.attempts or 1)
            return result
        usage = result.usage
        if usage is None and not isinstance(judge, Limited):
            usage = Usage(cost_usd=0.0)  # no model was asked
        record = CallRecord(
            key=key, stage="quality", text=result.model_dump_json(), usage=usage
        )
        self.count(self._new(record, result))
        return result

    def _new(self, record: CallRecord, answer: ChatReply | JudgeResult) -> CallRecord:
        """Complete the record of an answer that has just come, hand it on, and return it."""
        fallback = answer.answered_by.fallback if answer.answered_by else ""
        update = {"attempts": answer.attempts or 1, "fallback": fallback}
        record = record.model_copy(update=update)
        self._hand_on(record)
        return record

    def _permitted(self) -> AbstractContextManager[object]:
        """Return the permit for one new call."""
        self.raise_interruption()
        with self._interruptible():
            return self._permit()

    def _used_up(
        self,
        stage: Stage,
        usage: Usage | None,
        attempts: int,
    ) -> None:
        """Hand on what a call without an answer cost; it is in the totals of no document."""
        if usage is not None:
            record = CallRecord(
                key=_hash([uuid.uuid4().hex]),  # no question has this key
                stage=stage,
                text="",
                usage=usage,
                attempts=attempts,
                answered=False,
            )
            self._hand_on(record)

    def _hand_on(self, record: CallRecord) -> None:
        """Keep a record if it is an answer, and give it to `on_answer`."""
        if record.answered:
            self._known[record.key] = record
        with self._interruptible():
            self._on_answer(record)

    @contextmanager
    def _interruptible(self) -> Generator[None]:
        """Remember an error of `permit` or `on_answer`: a stage may swallow it."""
        try:
            yield
        except Exception as error:
            self._interruption = error
            raise

    def count(self, record: CallRecord) -> None:
        """Add a call to what its stage has used."""
        records = self._used.setdefault(record.stage, {})
        records[record.key] = record  # one question, one price


@lru_cache(maxsize=64)
def _shared_key(model: ChatModel, stage: Stage, reply: type[BaseModel]) -> bytes:
    """Return the part of the key that all calls of a stage share; kept, as no model changes."""
    schema = _hash([reply.model_json_schema()])
    return _json([stage, model.identity, reply.__name__, schema])


def _hash(parts: list[Any]) -> str:
    return hashlib.sha256(_json(parts)).hexdigest()


def _json(parts: list[Any]) -> bytes:
    return json.dumps(parts, sort_keys=True).encode()


def _with_texts(parts: bytes, *texts: str) -> str:
    """Hash `parts`, which are JSON, with long texts as they are: escaping these takes longer."""
    digest = hashlib.sha256(parts)
    for text in texts:
        encoded = text.encode("utf-8", "surrogatepass")
        digest.update(len(encoded).to_bytes(8))  # different texts, different bytes
        digest.update(encoded)
    return digest.hexdigest()
