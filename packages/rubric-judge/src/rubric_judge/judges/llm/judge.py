"""The judge of one response by a language model."""

from rubric_core import JudgeResult, JudgeView
from rubric_judge import events
from rubric_judge.config import JudgeConfig
from rubric_judge.judges.llm import prompt, replies
from rubric_judge.judges.llm.by_criterion import judge_by_criterion
from rubric_judge.judges.llm.model_judge import (
    Answered,
    ModelJudge,
    unavailable_if_cut,
)


class LLMJudge(ModelJudge[JudgeConfig]):
    """Scores a response by asking a model once and reading its reply by the contract.

        r = Σ s_j / W  if the reply is valid,  0 with a reason if it is not

    With `granularity: criterion` it asks once for each criterion, and all replies have to be valid.
    An invalid reply is recorded and never asked for again. A call that brings no answer is repeated
    within the configured attempts and deadline, and then is `unavailable`.

    Close it with `aclose`, or use it as an asynchronous context manager.
    """

    _scored = ("evidence", "passage_chars")

    def _load_prompt(self) -> prompt.Prompt:
        config = self._config
        by_criterion = self._is_by_criterion and config.prompt == "shared_prefix"
        layout = "by_criterion" if by_criterion else config.prompt
        return prompt.load_prompt(layout, evidence=config.evidence != "off")

    @property
    def _is_by_criterion(self) -> bool:
        return self._config.granularity == "criterion"

    @property
    def name(self) -> str:
        """The model and the version of the prompt, and whether each criterion has its own call."""
        return super().name + (" by criterion" if self._is_by_criterion else "")

    @property
    def warm_call(self) -> bool:
        """Whether a group's first response is judged alone first."""
        return self._config.warm_call

    async def judge(self, view: JudgeView) -> JudgeResult:
        """Judge one response.

        Args:
            view: everything the judge sees.

        Returns:
            A scored result; an invalid one for a reply that breaks the contract; or an unavailable
            one. A response without an answer scores 0, and the model is not asked.
        """
        reason = view.unanswered
        if reason is not None:
            return JudgeResult.without_answer(view.rubric, reason, judge=self.name)
        if not self._is_by_criterion:
            return await self._judge_at_once(view)
        return await judge_by_criterion(self._judge_at_once, view, warm=self.warm_call)

    async def _judge_at_once(self, view: JudgeView) -> JudgeResult:
        config = self._config
        rendered = self._prompt.render(view, passage_chars=config.passage_chars)
        reply = replies.reply_model(
            view.rubric, config.prompt, evidence=config.evidence != "off"
        )
        answer = await self._ask(rendered, reply, task_id=view.task_id)
        judgement = self._judgement(view, answer, passage=rendered.passage)
        recorded = self._with_reply_text(judgement, answer.text)
        result = recorded.with_call(**answer.call)
        events.call_finished(result, task_id=view.task_id)
        return result

    def _judgement(
        self, view: JudgeView, answer: Answered, *, passage: str
    ) -> JudgeResult:
        """Return the failure of a call, or else what its reply says."""
        if answer.failure is not None:
            return unavailable_if_cut(answer.failure, answer)
        read = self._read(view, answer.text, passage=passage)
        return unavailable_if_cut(read, answer)

    def _read(self, view: JudgeView, text: str, *, passage: str) -> JudgeResult:
        if self._config.evidence == "off":
            return JudgeResult.from_reply(view.rubric, text)
        return JudgeResult.from_quoting_reply(
            view.rubric,
            text,
            response=view.response,
            passage=passage,
            required=self._config.evidence == "require",
        )
