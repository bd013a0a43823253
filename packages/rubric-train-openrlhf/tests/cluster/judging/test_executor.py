"""The executor, the coordinator and the judge's actors on a real Ray; the engine is a stand-in.

`test_real_ends` has real engines. Here judge, coordinator and network fail in the middle of a step.
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import signal
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from rubric_core import group_advantages
from rubric_judge import JudgeSetupError
from rubric_judge.pool.ray_start import start_ray
from rubric_judge.testing import FakeEndpointProcess, Fault, marked, marked_share
from rubric_train_openrlhf.cluster.sampling.policy_run import PolicyRun
from rubric_train_openrlhf.cluster.sampling.samples import JudgementId
from rubric_train_openrlhf.cluster.settings import RUN_FILE
from rubric_train_openrlhf.errors import ClusterError, JudgeAbortError
from rubric_train_openrlhf.run.records import JudgementRow
from rubric_train_openrlhf.step.rewards import Sizes
from rubric_train_openrlhf.step.tasks import TaskSet

pytest.importorskip("ray")
from rubric_train_openrlhf.cluster.launching.ray_session import (
    start_coordinator,
    stop_coordinator,
)
from rubric_train_openrlhf.cluster.sampling.judge_calls import (
    ask,
    find_coordinator,
    verdict_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Sequence

    import numpy.typing as npt
    from transformers import PreTrainedTokenizerBase as Tokenizer

    from rubric_core import Task
    from rubric_judge.pool.statistics import PoolStatistics
    from rubric_train_openrlhf.config.train import TrainConfig
    from rubric_train_openrlhf.step.credit import StepCredit

    MakeConfig = Callable[..., TrainConfig]

pytestmark = [
    pytest.mark.openrlhf,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    # Ray tells of its own future, and leaves sockets and subprocesses to the end of the process.
    pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
PROMPTS, GROUP = 4, 16
SHARES = [number / 100 for number in range(PROMPTS * GROUP)]
ENDED = [[True] * GROUP] * PROMPTS
LENGTHS = [[8] * GROUP] * PROMPTS


@dataclass(frozen=True)
class Life:
    """What a process of the coordinator did."""

    pool: PoolStatistics
    actors_replaced: int


@dataclass(frozen=True)
class Step:
    """What is left of a step: a third of the calls failed, a judge and the coordinator died."""

    samples: list[dict[str, Any]]
    credit: StepCredit
    lives: tuple[Life, Life]
    leaks: list[object]
    folder: Path

    @property
    def outcomes_PG(self) -> npt.NDArray[np.str_]:
        reasons = [JudgementId.read(sample["label"]).reason for sample in self.samples]
        outcomes = [
            "scored" if reason is None else reason.outcome.value for reason in reasons
        ]
        return np.array(outcomes).reshape(PROMPTS, GROUP)

    @property
    def scored_PG(self) -> npt.NDArray[np.bool_]:
        return self.outcomes_PG == "scored"


class Engine:
    """Generates given texts, each after a moment."""

    def __init__(self, tokenizer: Tokenizer, texts: Sequence[str]) -> None:
        self._tokenizer = tokenizer
        self._texts = enumerate(texts)

    async def generate(
        self, prompt_token_ids: list[int], sampling_params: object, /
    ) -> Any:
        del prompt_token_ids, sampling_params
        number, text = next(self._texts)
        await asyncio.sleep(0.02 * number)
        tokens = self._tokenizer.encode(text, add_special_tokens=False)
        logprobs = [{token: SimpleNamespace(logprob=-1.0)} for token in tokens]
        completion = SimpleNamespace(
            token_ids=tokens, logprobs=logprobs, finish_reason="stop"
        )
        return SimpleNamespace(outputs=[completion])


@pytest.fixture(scope="module")
def ray_folder() -> Iterator[Path]:
    """A cluster's own folder; the path of a socket has room for about a hundred characters."""
    ray = pytest.importorskip("ray")
    folder = Path(tempfile.mkdtemp(prefix="ray"))
    start_ray(
        ray,
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
        _temp_dir=str(folder),
    )
    yield folder
    ray.shutdown()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def step(
    ray_folder: Path,
    run_folder: Path,
    make_planted_config: MakeConfig,
    planted: Sequence[Task],
    tokenizer: Tokenizer,
    canaries: Any,
) -> Step:
    """One step through the executor; its coordinator is gone afterwards."""
    # The first asks whether the judge is there.
    kinds = [Fault.SERVER_ERROR] * 2 + [Fault.RATE_LIMIT] + [None] * 7
    faults = [None, *random.Random(0).choices(kinds, k=200)]
    with FakeEndpointProcess(marked_share, faults=faults, latency=0.3) as endpoint:
        spec = {
            "type": "llm",
            "model": "openai/fake",
            "api_base": endpoint.url,
            "transport": "direct",
            "max_transport_attempts": 1,
        }
        config = make_planted_config(
            judge={"spec": spec, "workers": 2, "micro_batch": 2},
            rollout={"prompts": PROMPTS, "group_size": GROUP},
        )
        run_file = run_folder / "run" / "cluster" / "run.json"
        PolicyRun.of(config, namespace="faults").write(run_file)
        coordinator = start_coordinator(config, namespace="faults")
        ask(coordinator.open)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(RUN_FILE, str(run_file))
            first, samples = asyncio.run(_sample(coordinator, planted, tokenizer))
        names = [sample["label"] for sample in samples]
        names_PG = [
            names[start : start + GROUP] for start in range(0, len(names), GROUP)
        ]
        credit = ask(coordinator.credit, 1, names_PG, Sizes.of(LENGTHS, ENDED))
        second = ask(coordinator.__ray_call__, _life)
        leaks = canaries.in_reach(run_folder / "run", ray_folder)
        stop_coordinator(coordinator)
    return Step(samples, credit, (first, second), leaks, run_folder / "run")


async def _sample(
    coordinator: Any,
    tasks: Sequence[Task],
    tokenizer: Tokenizer,
) -> tuple[Life, list[dict[str, Any]]]:
    """Generate and judge, and kill a judge and then the coordinator in the middle of it."""
    from rubric_train_openrlhf.cluster.sampling.agent import (
        AgentExecutor,
    )  # imports OpenRLHF

    executor = AgentExecutor()
    texts = [
        marked("It adds.", view=row, share=share) for row, share in enumerate(SHARES)
    ]
    engine = Engine(tokenizer, texts)

    def respond(row: int) -> Coroutine[Any, Any, dict[str, Any]]:
        return executor.execute(
            prompt="Question: why?\nAnswer:",
            label=tasks[row // GROUP].task_id,
            sampling_params=SimpleNamespace(max_tokens=64),
            max_length=400,
            hf_tokenizer=tokenizer,
            llm_engine=engine,
        )

    responses = asyncio.gather(*(respond(row) for row in range(len(texts))))
    await asyncio.sleep(1.5)
    await coordinator.__ray_call__.remote(_kill_a_judge)
    await asyncio.sleep(1.5)
    first = await coordinator.__ray_call__.remote(_life)
    os.kill(await coordinator.__ray_call__.remote(_pid), signal.SIGKILL)
    return first, await responses


def test_no_reward_is_wrong(step: Step) -> None:
    wanted_PG = np.array(SHARES).reshape(PROMPTS, GROUP)
    rewards_PG = np.array([one["reward"] for one in step.samples]).reshape(
        PROMPTS, GROUP
    )

    np.testing.assert_allclose(
        rewards_PG[step.scored_PG], wanted_PG[step.scored_PG], atol=1e-9
    )
    assert (rewards_PG[~step.scored_PG] == 0).all()
    np.testing.assert_allclose(
        step.credit.rewards_PG[step.scored_PG], wanted_PG[step.scored_PG], atol=1e-9
    )


def test_what_was_not_judged_is_masked_and_counted(step: Step) -> None:
    assert set(step.outcomes_PG.reshape(-1)) == {"scored", "unavailable"}
    assert 0.1 < (~step.scored_PG).mean() < 0.5
    np.testing.assert_array_equal(step.credit.valid_PG, step.scored_PG)
    np.testing.assert_array_equal(
        step.credit.advantages_PG,
        group_advantages(step.credit.rewards_PG, valid_PG=step.credit.valid_PG),
    )
    assert (step.credit.advantages_PG[~step.scored_PG] == 0).all()
    assert step.credit.figures.unavailable_frac == (~step.scored_PG).mean()


def test_the_rows_are_those_of_the_step_though_its_coordinator_died(step: Step) -> None:
    text = (step.folder / "judgements" / "step_000001.jsonl").read_text()
    rows = [JudgementRow.model_validate_json(line) for line in text.splitlines()]

    assert [row.result.outcome for row in rows] == list(step.outcomes_PG.reshape(-1))
    assert [
        row.result.scores["named"] / 2 for row in rows if row.result.scores
    ] == pytest.approx(
        [
            share
            for share, is_scored in zip(SHARES, step.scored_PG.reshape(-1), strict=True)
            if is_scored
        ]
    )


def test_the_judge_had_no_more_to_do_than_it_takes(step: Step) -> None:
    first, second = step.lives

    assert first.actors_replaced == 1
    assert first.pool.done > 0
    assert second.pool.done > 0
    assert max(first.pool.peak_in_flight, second.pool.peak_in_flight) <= 4


def test_no_text_of_the_judges_is_where_the_policy_could_read_it(
    step: Step,
    canaries: Any,
) -> None:
    assert step.leaks == []
    assert {"files", "cmdline", "environ"} <= canaries.looked_at.keys()
    assert canaries.in_files(step.folder.parent), (
        "the search does not find the task files"
    )
    import ray

    kept = ray.put("zqcanary " * 20_000)
    assert canaries.in_object_store(), (
        "the search does not find what is in Ray's object store"
    )
    del kept


@pytest.mark.anyio
@pytest.mark.usefixtures("ray_folder")
async def test_what_the_coordinator_raises_reaches_its_caller_as_it_is(
    make_config: MakeConfig, tasks: Sequence[Task]
) -> None:
    unset = {"type": "llm", "model": "openai/x", "api_key_env": "NO_SUCH_KEY"}
    keyless = start_coordinator(
        make_config(judge={"spec": unset, "workers": 1}), namespace="lexical"
    )
    with pytest.raises(JudgeSetupError, match="NO_SUCH_KEY"):
        ask(keyless.open)
    stop_coordinator(keyless)
    with pytest.raises(
        ClusterError, match="no judge coordinator in Ray's namespace 'nowhere'"
    ):
        find_coordinator("nowhere")

    coordinator = start_coordinator(make_config(), namespace="lexical")
    ask(coordinator.open)
    name = tasks[0].task_id
    assert (
        await verdict_of(find_coordinator("lexical"), name, "The function fn_0 adds.")
    ).reward == 1 / 3
    lost = JudgementId.read(
        (await verdict_of(coordinator, "feedfeedfeedfeed", "x")).judgement
    )
    assert lost.reason == "judge_error"
    with pytest.raises(JudgeAbortError, match="step 4") as caught:
        ask(coordinator.credit, 4, [[lost.text] * 4], Sizes.of([[8] * 4], [[True] * 4]))
    assert caught.value.step == 4
    stop_coordinator(coordinator)
    started = time.monotonic()
    gone = JudgementId.read((await verdict_of(coordinator, name, "x")).judgement)
    assert gone.reason == "connection"
    with pytest.raises(ClusterError, match="does not answer"):
        ask(coordinator.heldout, 4, [])
    assert time.monotonic() - started < 30
    assert TaskSet(tasks)[name].rubric


def _kill_a_judge(coordinator: Any) -> None:
    import ray

    ray.kill(coordinator._opened.pool._judges[0].actor)


def _life(coordinator: Any) -> Life:
    pool = coordinator._opened.pool
    return Life(pool.statistics(), pool.replaced)


def _pid(_: Any) -> int:
    return os.getpid()
