"""The `AgentExecutor` that OpenRLHF's engines load by path; it judges while others generate."""

from typing import Any

from openrlhf.utils.agent import AgentExecutorBase

from rubric_core import Answer
from rubric_train_openrlhf.cluster.sampling import judge_calls, policy_run, samples


class AgentExecutor(AgentExecutorBase):
    """Generates responses and has each judged as it ends, while the others are generated.

    One is made in every engine's process, where at most as many judge calls are under way as the
    judge itself takes, so that what waits does so here and not at the coordinator of all engines.
    """

    def __init__(self) -> None:
        """Find the run's coordinator.

        Raises:
            ClusterError: this process belongs to no run, or the run has no coordinator.
        """
        run = policy_run.read_policy_run()
        self._coordinator = judge_calls.find_coordinator(run.namespace)
        self._run = run

    async def execute(  # noqa: PLR0913, PLR0917  # OpenRLHF's
        self,
        prompt: str,
        label: str,
        sampling_params: Any,
        max_length: int,
        hf_tokenizer: Any,
        llm_engine: Any,
        images: object = None,
    ) -> dict[str, object]:
        """Generate one response to a prompt and judge it; see `judged_sample`.

        Args:
            prompt: as text.
            label: the task's id.
            sampling_params: `vllm.SamplingParams`.
            max_length: longest prompt and response together, in tokens.
            hf_tokenizer: of the policy.
            llm_engine: the actor around the engine.
            images: none here.
        """
        del images
        request = samples.SampleRequest(prompt, label, sampling_params, max_length)
        return await samples.judged_sample(
            request,
            tokenizer=hf_tokenizer,
            engine=llm_engine,
            judge=self._judge,
            run=self._run,
        )

    async def _judge(self, task_id: str, answer: Answer) -> samples.Verdict:
        async with samples.judge_slots(self._run.judge_calls):
            return await judge_calls.verdict_of(self._coordinator, task_id, answer)
