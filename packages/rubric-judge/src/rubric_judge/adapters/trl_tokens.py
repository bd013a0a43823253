"""Tokens and tokenizer of TRL's trainer, beside the text that a reward is given.

TRL decodes completions without special tokens, which include the marks of a thought for many
models. TRL passes the tokens, and the trainer, whose method `log_metric` is, has the tokenizer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

from rubric_core import Answer, Thoughts, opens_thought
from rubric_core.traces.messages import answer_from, text_of
from rubric_judge.adapters.answers import answer_behind, decoded


class Policy(NamedTuple):
    """The tokens of a batch, and the trainer that can read them."""

    token_ids: Sequence[Sequence[int]] | None = None
    """Tokens of each completion; None where TRL does not pass them."""

    trainer: Any = None  # a GRPOTrainer, or one of its kin
    """None where a reward is called by something else."""

    @classmethod
    def of(cls, log_metric: object, token_ids: object, *, count: int) -> Policy:
        """Find the trainer, and the tokens if each completion has them.

        Args:
            log_metric: the log function that a reward is given; the trainer's method.
            token_ids: the column `completion_ids`.
            count: number of completions.
        """
        trainer = getattr(log_metric, "__self__", None)
        if not hasattr(trainer, "processing_class"):
            trainer = None
        listed = (
            cast("Sequence[Sequence[int]]", token_ids)
            if isinstance(token_ids, list)
            else ()
        )
        return cls(listed if len(listed) == count else None, trainer)

    def answers(
        self,
        prompts: Sequence[object],
        completions: Sequence[object],
        thoughts: Thoughts,
    ) -> list[Answer]:
        """Return the answer of each completion."""
        answers: list[Answer] = []
        before: object = None
        opened = False
        for number, (prompt, completion) in enumerate(
            zip(prompts, completions, strict=True)
        ):
            if prompt != before:  # those of a group follow each other
                before = prompt
                opened = opens_thought(self._read(prompt), thoughts)
            answers.append(self._answer(number, completion, thoughts, opened=opened))
        return answers

    def _read(self, prompt: object) -> str:
        """Return the prompt as the policy read it; empty where that is unknown."""
        if isinstance(prompt, str):
            return prompt
        if self.trainer is None:
            return ""
        settings = dict(getattr(self.trainer, "chat_template_kwargs", None) or {})
        template = getattr(self.trainer, "chat_template", None)
        if template is None and self.trainer.processing_class.chat_template is None:
            return ""  # a `rollout_func` asks in its own way
        render = self.trainer.processing_class.apply_chat_template
        text = render(
            prompt,
            chat_template=template,
            add_generation_prompt=True,
            tokenize=False,
            **settings,
        )
        return str(text)

    def _answer(
        self, number: int, completion: object, thoughts: Thoughts, *, opened: bool
    ) -> Answer:
        if self.token_ids is None or self.trainer is None:
            return answer_from(completion, thoughts, opened=opened)
        if not _is_one_reply(completion):
            return answer_from(completion, thoughts, opened=opened)
        tokenizer = self.trainer.processing_class
        ids = self.token_ids[number]
        answer = answer_behind(ids, tokenizer, thoughts, opened=opened)
        text = text_of(completion, role="assistant")
        if text == decoded(ids, tokenizer) or text.strip() == answer.text.strip():
            return answer
        # A function around the reward, or a response template, changed the text.
        return answer_from(completion, thoughts)


def _is_one_reply(completion: object) -> bool:
    """Whether all the tokens are one reply's: with tools, they are those of several."""
    if isinstance(completion, str):
        return True
    messages = cast("Sequence[Mapping[str, object]]", completion)
    return len(messages) == 1 and not messages[0].get("tool_calls")
