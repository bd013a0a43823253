"""The engine that samples: OpenRLHF's vLLM actor, started with what its flags cannot say."""

import os
from typing import Any, cast

from openrlhf.trainer.ray import vllm_engine
from transformers import AutoTokenizer

from rubric_train_openrlhf.cluster import cpu, failure, orphans
from rubric_train_openrlhf.cluster.sampling import engine_process, policy_run
from rubric_train_openrlhf.errors import ClusterError

_EngineActor: Any = cast(
    "Any", vllm_engine.RolloutRayActor
).__ray_metadata__.modified_class

_BATCHED_TOKENS = 8192
"""Prompt tokens that an engine reads in one pass."""
_CPU_CACHE_BYTES = 2**28
"""For keys and values: a CPU engine serves small models and short answers."""


class RubricRolloutActor(_EngineActor):
    """One engine. Ray starts it again when its process dies, with the weights of the start."""

    async def __init__(self, *args: Any, **options: Any) -> None:
        """Start vLLM.

        Args:
            args: OpenRLHF's.
            options: OpenRLHF's, most of them vLLM's engine arguments.
        """
        run = policy_run.read_policy_run()
        engine_process.end_with_engine()
        try:
            await super().__init__(*args, **options | engine_options(run))
        except RuntimeError as error:
            # vLLM says no more than that its own process failed.
            why = engine_process.engine_error() or failure.shown(error)
            raise ClusterError(f"vLLM does not start: {why}") from error
        # Calls beside `generate`, as those with new weights, wait for ever on a process that died.
        orphans.end_once(self._has_lost_its_process)
        self._tokenizer = AutoTokenizer.from_pretrained(
            options["model"], local_files_only=True
        )

    def _has_lost_its_process(self) -> bool:
        return bool(self.llm.errored)

    async def generate_responses(self, **request: Any) -> Any:
        """Sample and judge responses to one prompt.

        Args:
            request: OpenRLHF's. Its tokenizer is this actor's own: one that comes with every call
                takes longer to unpickle than a response to be sampled.
        """
        return await super().generate_responses(
            **request | {"hf_tokenizer": self._tokenizer}
        )

    async def generate(
        self, prompt_token_ids: Any, sampling_params: Any, multi_modal_data: Any = None
    ) -> Any:
        """Sample one response; where vLLM's own process died, end this one, to be restarted."""
        from vllm.v1.engine.exceptions import EngineDeadError  # loaded by then

        try:
            return await super().generate(
                prompt_token_ids, sampling_params, multi_modal_data
            )
        except EngineDeadError:
            os._exit(1)


def engine_options(run: policy_run.PolicyRun) -> dict[str, Any]:
    """Engine arguments beyond OpenRLHF's flags."""
    options: dict[str, Any] = {
        # OpenRLHF asks for bfloat16 whatever the policy is trained in.
        "dtype": run.precision,
        # Those of the distribution sampled from: the denominator of the policy's ratio.
        "logprobs_mode": "processed_logprobs",
        "max_logprobs": 1,
        # Without these, the way in which OpenRLHF starts vLLM gets its smallest defaults.
        "max_num_seqs": run.cluster.engines.max_sequences,
        "max_num_batched_tokens": max(
            _BATCHED_TOKENS, run.cluster.max_len, run.cluster.engines.max_sequences
        ),
    }
    if run.cluster.device == "cpu":
        extension = (
            f"{cpu.CpuWorkerExtension.__module__}.{cpu.CpuWorkerExtension.__qualname__}"
        )
        options |= {
            "worker_extension_cls": extension,
            "kv_cache_memory_bytes": _CPU_CACHE_BYTES,
        }
    return options
