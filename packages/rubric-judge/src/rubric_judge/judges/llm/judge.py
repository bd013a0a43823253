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
from rubric_judge.judges.llm.verdict_check import QUESTION_OF_CHECK, check_verdicts
from rubric_judge.judges.llm.verdicts import (
    READING,
    asked_fields,
    most_listed,
    read_verdict,
)
from rubric_judge.models.model_config import ModelConfig


class LLMJudge(ModelJudge[JudgeConfig]):
    """Scores a response by asking a model once and reading its reply by the contract.

        r = Σ s_j / W  if the reply is valid,  0 with a reason if it is not

    With `granularity: criterion`, or a number k, it asks once for each criterion, or for each k of
    them, and all replies have to be valid. With `verdict: probability` each criterion is a call
    whose score is read off the probabilities of its first token (`verdicts`). An invalid reply is
    recorded and never asked for again. A call that brings no answer is repeated within the
    configured attempts and deadline; after that the result is `unavailable`.

    Close it with `aclose`, or use it as an asynchronous context manager.
    """

    _scored = ("evidence", "passage_chars")

    @property
    def name(self) -> str:
        """The model, the version of the prompt, and the criteria of a call if those are not all."""
        config = self._config
        if config.is_by_probability or config.granularity == "rubric":
            return super().name
        if config.granularity == "criterion":
            return f"{super().name} by criterion"
        return f"{super().name} by {config.granularity}"

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
        config = self._config
        if config.is_by_probability:
            return await judge_by_criterion(
                self._judge_by_word, view, warm=config.warm_call
            )
        k = config.criteria_per_call
        if k is None:
            return await self._judge_at_once(view)
        return await judge_by_criterion(
            self._judge_at_once, view, warm=config.warm_call, k=k
        )

    def refuse_excerpt(self, view: JudgeView) -> str:
        """Return "": every part of a trace can be read."""
        del view
        return ""

    async def check(self) -> None:
        """Ask every replica a short question; see `ModelJudge.check`.

        With `verdict: probability` it is a question like those to come, and a server that does not
        say how probable its words are is refused.

        Raises:
            JudgeSetupError: as `ModelJudge.check`; or as `check_verdicts`.
        """
        config = self._config
        if not config.is_by_probability:
            await super().check()
            return
        rendered = self._prompt.render(
            QUESTION_OF_CHECK, passage_chars=config.passage_chars
        )
        async for address, answer in self._model.probe(
            system=rendered.system, user=rendered.user
        ):
            await check_verdicts(config, address, answer)

    def _load_prompt(self) -> prompt.Prompt:
        config = self._config
        layout = config.prompt
        if config.is_by_probability:
            layout = "verdict"
        elif config.prompt == "shared_prefix" and config.granularity == "criterion":
            layout = "by_criterion"
        elif config.prompt == "shared_prefix" and config.criteria_per_call is not None:
            layout = "by_part"
        return prompt.load_prompt(layout, evidence=config.evidence != "off")

    def _asked_with(self, config: JudgeConfig) -> ModelConfig:
        if not config.is_by_probability:
            return config
        return config.model_copy(update={"parameters": asked_fields(config.parameters)})

    def _settings(self) -> dict[str, object]:
        settings = super()._settings()
        if self._config.is_by_probability:
            settings["verdict"] = READING
        return settings

    async def _judge_by_word(self, view: JudgeView) -> JudgeResult:
        """Judge the one criterion of a view by the probabilities of the reply's first token."""
        rendered = self._prompt.render(view, passage_chars=self._config.passage_chars)
        answer = await self._ask(rendered, None, task_id=view.task_id)
        judgement = answer.failure or read_verdict(
            view, answer.logprobs, most=most_listed(self._config.parameters)
        )
        return self._recorded(judgement, answer, view)

    async def _judge_at_once(self, view: JudgeView) -> JudgeResult:
        """Judge all criteria of a view in one call."""
        config = self._config
        rendered = self._prompt.render(view, passage_chars=config.passage_chars)
        reply = replies.reply_model(
            view.rubric, config.prompt, evidence=config.evidence != "off"
        )
        answer = await self._ask(rendered, reply, task_id=view.task_id)
        judgement = self._judgement(view, answer, passage=rendered.passage)
        return self._recorded(judgement, answer, view)

    def _recorded(
        self, judgement: JudgeResult, answer: Answered, view: JudgeView
    ) -> JudgeResult:
        """Return a judgement with the facts about its call, and log it."""
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
        """Read a reply by the contract, with its quotes if evidence was asked for."""
        if self._config.evidence == "off":
            return JudgeResult.from_reply(view.rubric, text)
        return JudgeResult.from_quoting_reply(
            view.rubric,
            text,
            response=view.quotable,
            passage=passage,
            required=self._config.evidence == "require",
        )
