"""Time of a step whose responses are judged as they end, over the longer of its two halves alone.

The executor that OpenRLHF's engines load runs in two Ray actors; coordinator, ledger and judge's
actors are those of a run, and the judge is a real HTTP endpoint. Only the engine is a stand-in: it
takes a given time for each response. For several latencies of the judge, this measures one step,
the same responses generated and not judged, and the same judged all at once, by the same
coordinator. One latency makes judging take as long as generation, where it is hardest to hide.

    uv run --extra openrlhf-cpu python benchmarks/judge_overlap.py [--quick] [--json PATH]
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# Ray's handles have no types.
from __future__ import annotations

import argparse
import asyncio
import importlib.util
import logging
import os
import random
import shutil
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import ray
import structlog
from record import finish

from rubric_core import Criterion, Grounding, Rubric, Task, write_tasks
from rubric_judge.testing import FakeEndpoint, marked, marked_share
from rubric_train_openrlhf.cluster import sampling
from rubric_train_openrlhf.cluster.launching.ray_session import (
    start_coordinator,
    stop_coordinator,
)
from rubric_train_openrlhf.cluster.sampling.judge_calls import ask
from rubric_train_openrlhf.cluster.sampling.policy_run import PolicyRun
from rubric_train_openrlhf.cluster.settings import RUN_FILE
from rubric_train_openrlhf.config.train import TrainConfig, parse_config
from rubric_train_openrlhf.policy import build_tokenizer
from rubric_train_openrlhf.step.rewards import Sizes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

CLAIM = "a step takes at most 1.15 times the longer of generation and judging"
TARGET = 1.15
ENGINES = 2
SLOTS = 64
"""Responses that an engine generates at once."""
WORKERS, MICRO_BATCH = 8, 8
GROUP = 32
_PROMPT = "Question: what does it say?\nAnswer:"


@dataclass(frozen=True)
class Size:
    """How much a step has to do."""

    prompts: int
    response_s: float
    """Mean time of one response; each takes from an eighth of it to nearly twice it."""
    latencies_s: tuple[float, ...]
    """Of the judge."""

    @property
    def responses(self) -> int:
        """P·G."""
        return self.prompts * GROUP


WHOLE = Size(prompts=32, response_s=4.0, latencies_s=(0.25, 0.5, 1.0, 2.0, 4.0))
QUICK = Size(prompts=8, response_s=4.0, latencies_s=(0.5, 2.0))


@dataclass(frozen=True)
class Outcome:
    """What one latency made of the step."""

    latency_s: float
    generation_s: float
    judging_s: float
    step_s: float

    @property
    def ratio(self) -> float:
        """Step over the longer half."""
        return self.step_s / max(self.generation_s, self.judging_s)

    @property
    def of_sum(self) -> float:
        """Step over both halves one after the other."""
        return self.step_s / (self.generation_s + self.judging_s)


class EngineActor:
    """Stands in for OpenRLHF's engine: loads the executor by its path, as that does."""

    def __init__(self, texts: Sequence[str]) -> None:
        """Load the executor, and a vocabulary for the texts."""
        executor = Path(str(sampling.__file__)).with_name("agent.py")
        spec = importlib.util.spec_from_file_location("agent_module", executor)
        if spec is None or spec.loader is None:
            raise ImportError(str(executor))
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        self._executor = module.AgentExecutor()
        self._tokenizer: Any = build_tokenizer(texts, 400)
        self._slots = asyncio.Semaphore(SLOTS)

    async def ready(self) -> None:
        """Answer once the actor is there."""

    async def respond(
        self, task_id: str, text: str, response_s: float
    ) -> dict[str, Any]:
        """Generate and judge one response."""
        return await self._executor.execute(
            prompt=_PROMPT,
            label=task_id,
            sampling_params=SimpleNamespace(
                max_tokens=64, text=text, response_s=response_s
            ),
            max_length=4096,
            hf_tokenizer=self._tokenizer,
            llm_engine=self,
        )

    async def generate(self, prompt_ids: list[int], sampling: Any) -> SimpleNamespace:
        """Take the time of one response in one of the slots."""
        del prompt_ids
        async with self._slots:
            await asyncio.sleep(sampling.response_s)
        tokens = self._tokenizer.encode(sampling.text, add_special_tokens=False)
        logprobs = [{token: SimpleNamespace(logprob=-1.0)} for token in tokens]
        completion = SimpleNamespace(
            token_ids=tokens, logprobs=logprobs, finish_reason="stop"
        )
        return SimpleNamespace(outputs=[completion])

    async def only_generate(self, text: str, response_s: float) -> None:
        """Generate one response that nobody judges."""
        await self.generate([], SimpleNamespace(text=text, response_s=response_s))


class Judge:
    """How long the judge takes at the moment."""

    latency_s = 0.0

    def __call__(self, generator: random.Random) -> float:
        """Give the latency of one call."""
        del generator
        return self.latency_s


class Bench:
    """A coordinator and its engines."""

    def __init__(
        self, config: TrainConfig, tasks: Sequence[Task], coordinator: Any
    ) -> None:
        """Start the engines."""
        self._tasks = tasks
        self._coordinator = coordinator
        self._views = 0
        run_file = config.out / "cluster" / "run.json"
        PolicyRun.of(config, namespace="overlap").write(run_file)
        environment = {"env_vars": {RUN_FILE: str(run_file)}}
        options: Any = {"num_cpus": 0, "max_concurrency": 10_000}
        remote: Any = ray.remote(**options, runtime_env=environment)
        texts = [marked("It says so.", view=number, share=0.5) for number in range(100)]
        self._engines = [remote(EngineActor).remote(texts) for _ in range(ENGINES)]
        ray.get([engine.ready.remote() for engine in self._engines])

    def warm_up(self) -> None:
        """Have every actor of the judge called once."""
        self.step([0.0] * (WORKERS * MICRO_BATCH))

    def generation_s(self, times_s: Sequence[float]) -> float:
        """Time without judging."""
        started_s = time.perf_counter()
        ray.get(
            [
                self._engine(row).only_generate.remote("It says so.", seconds)
                for row, seconds in enumerate(times_s)
            ]
        )
        return time.perf_counter() - started_s

    def step(self, times_s: Sequence[float]) -> float:
        """Time of a step, from the first prompt to its credit.

        Raises:
            RuntimeError: a reward is not that of its response.
        """
        shares = [(row % GROUP) / GROUP for row in range(len(times_s))]
        first, self._views = self._views, self._views + len(times_s)
        started_s = time.perf_counter()
        samples: list[dict[str, Any]] = ray.get(
            [
                self._engine(row).respond.remote(
                    self._tasks[row // GROUP].task_id,
                    marked("It says so.", view=first + row, share=share),
                    seconds,
                )
                for row, (seconds, share) in enumerate(
                    zip(times_s, shares, strict=True)
                )
            ]
        )
        names = [sample["label"] for sample in samples]
        groups = [names[start : start + GROUP] for start in range(0, len(names), GROUP)]
        shape = (len(groups), GROUP)
        sizes = Sizes(np.full(shape, 8), np.ones(shape, dtype=np.bool_))
        credit = ask(self._coordinator.credit, first, groups, sizes)
        seconds = time.perf_counter() - started_s
        wrong = [
            row
            for row, (sample, share) in enumerate(zip(samples, shares, strict=True))
            if abs(sample["reward"] - share) > 1e-6  # noqa: PLR2004  # rounding of the reply
        ]
        if wrong or not credit.valid_PG.all():
            raise RuntimeError(f"{len(wrong)} of {len(samples)} rewards are wrong")
        return seconds

    def close(self) -> None:
        """End the engines."""
        for engine in self._engines:
            ray.kill(engine)

    def _engine(self, row: int) -> Any:
        return self._engines[row % ENGINES]


def main() -> None:
    """Measure every latency and print the worst ratio."""
    parser = argparse.ArgumentParser(description=CLAIM)
    parser.add_argument("--json", type=Path, help="write the result to this file")
    parser.add_argument(
        "--quick", action="store_true", help="a quarter of the responses"
    )
    arguments = parser.parse_args()
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING)
    )
    # Ray's sockets need a short path.
    folder = Path(tempfile.mkdtemp(prefix="overlap"))
    ray.init(
        num_cpus=4,
        include_dashboard=False,
        log_to_driver=False,
        configure_logging=False,
        _temp_dir=str(folder / "ray"),
    )
    try:
        size = QUICK if arguments.quick else WHOLE
        result = record(size, list(measure(size, folder)))
    finally:
        ray.shutdown()
        shutil.rmtree(folder, ignore_errors=True)
    print(f"at worst {result['value']:.3f} (target {TARGET}): {result['passed']=}")
    finish(result, arguments.json)


def measure(size: Size, folder: Path) -> Iterator[Outcome]:
    """Measure one latency after another."""
    tasks = make_tasks(size.prompts)
    write_tasks(folder / "tasks.jsonl", tasks)
    times_s = response_times_s(size)
    judge = Judge()
    # In a thread of this process, which only waits.
    with FakeEndpoint(marked_share, latency=judge, keep="counts") as endpoint:
        config = make_config(folder, size=size, url=endpoint.url)
        config.out.mkdir()
        coordinator = start_coordinator(config, namespace="overlap")
        bench = Bench(config, tasks, coordinator)
        judge.latency_s = 0.5
        bench.warm_up()
        for latency_s in size.latencies_s:
            judge.latency_s = latency_s
            outcome = Outcome(
                latency_s,
                generation_s=bench.generation_s(times_s),
                judging_s=bench.step([0.0] * size.responses),
                step_s=bench.step(times_s),
            )
            print(
                f"judge {latency_s:4.2f} s: generation {outcome.generation_s:5.1f} s, judging "
                f"{outcome.judging_s:5.1f} s, step {outcome.step_s:5.1f} s = {outcome.ratio:.3f} "
                f"of the longer, {outcome.of_sum:.3f} of the sum",
                flush=True,
            )
            yield outcome
        bench.close()
        stop_coordinator(coordinator)


def record(size: Size, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Put the figures into the benchmark's record."""
    worst = max(outcome.ratio for outcome in outcomes)
    return {
        "claim": CLAIM,
        "value": worst,
        "target": TARGET,
        "direction": "at most",
        "passed": worst <= TARGET,
        "details": {
            "responses": size.responses,
            "engines": ENGINES,
            "slots_of_an_engine": SLOTS,
            "judge_calls_in_flight": WORKERS * MICRO_BATCH,
            "load_average": os.getloadavg()[0],
            "outcomes": [
                {**asdict(outcome), "ratio": outcome.ratio, "of_sum": outcome.of_sum}
                for outcome in outcomes
            ],
        },
    }


def response_times_s(size: Size) -> list[float]:
    """Draw how long each response takes: most end early, some late, as responses do."""
    generator = random.Random(0)
    shortest, longest = size.response_s / 8, size.response_s * 15 / 8
    return [generator.uniform(shortest, longest) for _ in range(size.responses)]


def make_tasks(n: int) -> list[Task]:
    """Make tasks; short, since only latencies count here."""
    rubric = Rubric(
        criteria=tuple(Criterion(id=f"c{number}", weight=1.0) for number in range(5))
    )
    return [
        Task(
            question=f"What does passage {number} say?",
            grounding=Grounding(f"It says {number}."),
            rubric=rubric,
        )
        for number in range(n)
    ]


def make_config(folder: Path, *, size: Size, url: str) -> TrainConfig:
    """Configure the coordinator; nothing is trained."""
    spec = {
        "type": "llm",
        "model": "openai/fake",
        "api_base": url,
        "transport": "direct",
    }
    return parse_config(
        {
            "backend": "openrlhf",
            "model": {"type": "path", "path": folder / "no model"},
            "data": {"train": folder / "tasks.jsonl"},
            "judge": {"spec": spec, "workers": WORKERS, "micro_batch": MICRO_BATCH},
            "rollout": {"prompts": size.prompts, "group_size": GROUP},
            "cluster": {"device": "cpu", "gpus_per_node": 1},
            "steps": 1,
            "out": folder / "run",
        }
    )


if __name__ == "__main__":
    main()
