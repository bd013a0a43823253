"""What TRL's trainer knows of a completion, beside the text that a reward is given.

TRL decodes completions without special tokens, which for many models the marks of a thought are.
The tokens come along, and the trainer, whose method `log_metric` is, has the tokenizer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

from rubric_core import Answer, Thoughts, opens_thought
from rubric_judge.adapters.answers import answer_behind, answer_from, decoded, text_of


class Policy(NamedTuple):
    """The tokens of a batch and whoever can read them."""

    token_ids: Sequence[Sequence[int]] | None = None
    """Of each completion; None where they do not come along."""

    trainer: Any = None  # a GRPOTrainer, or one of its kin
    """None where a reward is called by something else."""

    @classmethod
    def of(cls, log_metric: object, token_ids: object, *, count: int) -> Policy:
        """Find the trainer, and the tokens if there are those of each completion.

        Args:
            log_metric: what a reward is given to log with; the trainer's method.
            token_ids: the column `completion_ids`.
            count: of the completions.
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
        """Return the prompt as the policy read it; empty where nobody knows."""
        if isinstance(prompt, str):
            return prompt
        if self.trainer is None:
            return ""
        settings = dict(getattr(self.trainer, "chat_template_kwargs", None) or {})
        template = getattr(self.trainer, "chat_template", None)
        if template is None and self.trainer.processing_class.chat_template is None:
            return ""  # a `rollout_func` asks in its own way
        render = self.trainer.processing_class.apply_chat_template
        shown = {
            "chat_template": template,
            "add_generation_prompt": True,
            "tokenize": False,
        }
        return str(render(prompt, **shown, **settings))

    def _answer(
        self, number: int, completion: object, thoughts: Thoughts, *, opened: bool
    ) -> Answer:
        if (
            self.token_ids is None
            or self.trainer is None
            or not _is_one_reply(completion)
        ):
            return answer_from(completion, thoughts, opened=opened)
        tokenizer = self.trainer.processing_class
        ids = self.token_ids[number]
        answer = answer_behind(ids, tokenizer, thoughts, opened=opened)
        given = text_of(completion, role="assistant")
        if given == decoded(ids, tokenizer) or given.strip() == answer.text.strip():
            return answer
        # A function around the reward, or a response template, made something else of it.
        return answer_from(completion, thoughts)


def _is_one_reply(completion: object) -> bool:
    """Whether all the tokens are one reply's: with tools, they are those of several."""
    if isinstance(completion, str):
        return True
    messages = cast("Sequence[Mapping[str, object]]", completion)
    return len(messages) == 1 and not messages[0].get("tool_calls")
