"""A language model as judge of one response: prompt, one answer or one for each criterion."""

from __future__ import annotations

from rubric_core import JudgeResult, JudgeView
from rubric_judge import events
from rubric_judge.config import JudgeConfig
from rubric_judge.llm.by_criterion import judge_by_criterion
from rubric_judge.llm.model_judge import ModelJudge
from rubric_judge.llm.prompt import load_prompt
from rubric_judge.llm.replies import reply_model
from rubric_judge.provider.chat import ChatClient
from rubric_judge.provider.limits import Limiter


class LLMJudge(ModelJudge):
    """Scores a response by asking a model once and reading its reply by the contract.

        r = Σ s_j / W  if the reply is valid,  0 with a reason if it is not

    With `granularity: criterion` it asks once for each criterion, and all replies have to be valid.
    An invalid reply is recorded and never asked for again. A call that brings no
    answer is tried again within the configured attempts and deadline, and is `unavailable` after.

    Close it with `aclose`, or use it as an asynchronous context manager.
    """

    def __init__(
        self,
        config: JudgeConfig,
        *,
        client: ChatClient | None = None,
        limiter: Limiter | None = None,
    ) -> None:
        """Read the prompt, the key and the `litellm_config`; nothing is sent.

        Args:
            config: model, prompt, limits. With several addresses, all responses to one task go to
                the same one.
            client: carries the calls; one made of the configuration when left out.
            limiter: lets attempts through; one of this judge's own when left out.

        Raises:
            JudgeSetupError: the configuration names a variable for a key that is not set.
            ConfigError: the `litellm_config` cannot be used.
        """
        self._config = config
        self._is_by_criterion = config.granularity == "criterion"
        by_criterion = self._is_by_criterion and config.prompt == "shared_prefix"
        layout = "by_criterion" if by_criterion else config.prompt
        settings = {"evidence": config.evidence, "passage_chars": config.passage_chars}
        prompt = load_prompt(layout, evidence=config.evidence != "off")
        super().__init__(config, prompt, settings, client=client, limiter=limiter)

    @property
    def name(self) -> str:
        """The model and the version of the prompt, and whether it is asked for each criterion."""
        return super().name + (" by criterion" if self._is_by_criterion else "")

    @property
    def warm_call(self) -> bool:
        """Whether a group's first response goes alone."""
        return self._config.warm_call

    async def judge(self, view: JudgeView) -> JudgeResult:
        """Judge one response.

        Args:
            view: everything the judge sees.

        Returns:
            Scored; invalid, for an answer outside of the contract; or unavailable.
        """
        if not self._is_by_criterion:
            return await self._judge_at_once(view)
        return await judge_by_criterion(self._judge_at_once, view, warm=self.warm_call)

    async def _judge_at_once(self, view: JudgeView) -> JudgeResult:
        config = self._config
        rendered = self._prompt.render(view, passage_chars=config.passage_chars)
        reply = reply_model(view.rubric, config.prompt, evidence=config.evidence != "off")
        answer = await self._ask(rendered, reply, task_id=view.task_id)
        result = answer.failure or self._read(view, answer.text, passage=rendered.passage)
        result = result.with_call(**answer.call)
        events.call_finished(result, task_id=view.task_id)
        return result

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
