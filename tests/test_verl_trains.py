"""verl's own trainer, started by an exported `with_verl.py`, makes two steps on a CPU.

Device and sampler come from verl_on_cpu.py, by verl's own registries; all else is verl's.
"""

import importlib.util
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import anyio
import numpy as np
import pytest

from rubric_core import (
    JudgeResult,
    Task,
    answer_of,
    criterion_scores_z,
    group_advantages,
    project,
    read_tasks,
)
from rubric_core.files import text_sha256
from rubric_core.reward.attribution import decoupled_advantages
from rubric_judge import HybridConfig, load_judge
from rubric_judge.adapters.ties import tied_reward

pytestmark = [
    pytest.mark.stacks,
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.timeout(1800),
]

HERE = Path(__file__).resolve().parent
TASK_ROWS = HERE.parent / "packages/rubric-synth/tests/export/conftest.py"
SUPPORT = HERE / "verl_on_cpu.py"
JUDGE = {"type": "hybrid", "judge": {"type": "lexical"}}
STEPS, PROMPTS, GROUP, LENGTH = 2, 3, 8, 16
COUNTS = (1, 2, 1, 3, 1, 2, 4, 2, 1)
"""Criteria of each task; the first of three is for training: rubrics of 1, 3 and 4."""
WORDS = (
    *("apple", "bridge", "castle", "doctor", "engine", "forest"),
    *("garden", "harbor", "island", "jacket", "kettle", "ladder"),
)
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def rows_of_export() -> ModuleType:
    spec = importlib.util.spec_from_file_location("rows_of_verl_export", TASK_ROWS)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def task_row(number: int, count: int, draw: random.Random) -> dict[str, Any]:
    """A task whose criteria each want one of two words."""
    criteria = [
        {
            "id": f"task_{number}_{j}",
            "weight": 1.0 + j,
            "name": "a word",
            "description": "Says one of two words.",
            "required_elements": [],
            "scoring_guide": "All or nothing.",
            "verification_method": f"contains_any: {' | '.join(draw.sample(WORDS, 2))}",
            "expected_keywords": [],
            "expected_concepts": [],
            "kind": "definition",
        }
        for j in range(count)
    ]
    return {
        "question": f"Write about the {WORDS[number]}.",
        "passage": f"zqpassage {number}",
        "criteria": criteria,
        "question_rationale": "zqrationale",
        "document_analysis": {"genre": "note", "contribution": "none"},
        "doc_hash": text_sha256(str(number)),
        "reference_answer": " ".join(WORDS),
    }


def write_model(folder: Path) -> None:
    """Write a tiny policy of random weights, most of whose tokens are the words."""
    import torch

    from rubric_train_openrlhf.policy import (
        TinyConfig,
        build_tiny_llama,
        build_tokenizer,
    )

    draw = random.Random(0)
    texts = [
        "".join(f" {word}" for word in draw.choices(WORDS, k=12)) for _ in range(300)
    ]
    control = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
    tokenizer = build_tokenizer(texts, 360, control=control)
    tokenizer.chat_template = TEMPLATE
    shape = TinyConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=128,
        layers=2,
        heads=2,
        kv_heads=2,
        max_positions=192,
    )
    model: Any = build_tiny_llama(shape, seed=0)
    with torch.no_grad():
        for weights in model.model.layers.parameters():
            if weights.dim() > 1:
                weights.mul_(4)  # as it is drawn, it repeats its last token
        is_word = [
            tokenizer.decode([token]) in {f" {word}" for word in WORDS}
            for token in range(len(tokenizer))
        ]
        model.model.embed_tokens.weight[torch.tensor(is_word)] *= 8
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


@dataclass(frozen=True)
class Export:
    """The exported folder, and the policy."""

    home: Path
    tasks: dict[str, Task]

    @property
    def folder(self) -> Path:
        return self.home / "my-docs"

    @property
    def model(self) -> Path:
        return self.home / "model"


@pytest.fixture(scope="module")
def export(tmp_path_factory: pytest.TempPathFactory) -> Export:
    for package in ("verl", "transfer_queue", "hydra", "rubric_synth"):
        pytest.importorskip(package)
    from rubric_synth.cli import main

    home = tmp_path_factory.mktemp("verl")
    draw = random.Random(1)
    rows = [task_row(number, count, draw) for number, count in enumerate(COUNTS)]
    rows_of_export().written_dataset(home / "dataset", rows)
    (home / "judge.yaml").write_text(json.dumps(JUDGE), encoding="utf-8")
    write_model(home / "model")
    words = ["--to", "verl", "--judge", str(home / "judge.yaml"), "--fixtures", "0"]
    with pytest.raises(SystemExit) as ended:
        main(["export", str(home / "dataset"), *words, "--out", str(home / "my-docs")])
    assert not ended.value.code
    path = home / "my-docs/my_docs/judge/tasks.jsonl"
    return Export(home, {task.task_id: task for task in read_tasks(path)})


@dataclass(frozen=True)
class Run:
    """What verl left behind."""

    folder: Path
    console: str

    def rollouts(self, step: int) -> list[dict[str, Any]]:
        """The responses of a step, as verl dumped them."""
        text = (self.folder / f"rollouts/{step}.jsonl").read_text("utf-8")
        return [json.loads(line) for line in text.splitlines()]

    def updates(self) -> list[dict[str, Any]]:
        """What each optimiser step was given."""
        text = (self.folder / "updates.jsonl").read_text("utf-8")
        return [json.loads(line) for line in text.splitlines()]

    def logged(self, step: int, name: str) -> float:
        """A figure of verl's console."""
        (line,) = re.findall(rf"step:{step} - .*", self.console)
        (value,) = re.findall(rf" - {re.escape(name)}:(?:np\.\w+\()?([^ )]+)", line)
        return float(value)


def trained(export: Export, folder: Path, *words: str) -> Run:
    """Run the exported file as it is, with settings for a CPU and a tiny policy behind it."""
    support = folder / "support"
    support.mkdir()
    shutil.copy(SUPPORT, support)
    environment = {
        **os.environ,  # noqa: TID251
        "HF_HOME": str(folder / "huggingface"),
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(support),
        "RAY_AUTH_MODE": "disabled",
        "VERL_ON_CPU_UPDATES": str(folder / "updates.jsonl"),
        "VERL_USE_EXTERNAL_MODULES": "verl_on_cpu",
    }
    environment.pop("CUDA_VISIBLE_DEVICES", None)
    actor, rollout = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
    with tempfile.TemporaryDirectory(
        prefix="verl",
        dir="/tmp",  # the names of Ray's sockets are short
        ignore_cleanup_errors=True,
    ) as ray:
        settings = {
            "actor_rollout_ref.model.path": export.model,
            "+actor_rollout_ref.model.override_config.attn_implementation": "eager",
            "actor_rollout_ref.model.use_remove_padding": "false",  # flash-attn's
            f"{rollout}.name": "transformers",
            f"{rollout}.agent.num_workers": 1,
            f"{actor}.strategy": "fsdp2",
            f"{actor}.fsdp_config.use_torch_compile": "false",
            f"+{actor}.fsdp_config.mixed_precision": (
                "{param_dtype:fp32,reduce_dtype:fp32,buffer_dtype:fp32}"
            ),
            f"{actor}.optim.lr": 1e-3,
            "data.max_prompt_length": 128,
            "data.max_response_length": LENGTH,
            "data.dataloader_num_workers": 0,
            "reward.num_workers": 1,
            "transfer_queue.backend.SimpleStorage.num_data_storage_units": 1,
            "trainer.device": "cpu",
            "trainer.n_gpus_per_node": 1,
            "trainer.rollout_data_dir": folder / "rollouts",
            "ray_kwargs.ray_init.num_cpus": 16,
            "+ray_kwargs.ray_init.num_gpus": 1,
            "+ray_kwargs.ray_init.include_dashboard": "false",
            "+ray_kwargs.ray_init.object_store_memory": 2**28,
            "+ray_kwargs.ray_init._temp_dir": ray,
        }
        overrides = [f"{name}={value}" for name, value in settings.items()]
        done = subprocess.run(
            [
                sys.executable,
                str(export.folder / "with_verl.py"),
                *overrides,
                *words,
            ],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-6000:]}"
    return Run(folder, done.stdout)


@pytest.fixture(scope="module")
def plain(export: Export, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The exported file as it is: GRPO, validation and checkpoints."""
    return trained(export, tmp_path_factory.mktemp("plain"))


@pytest.fixture(scope="module")
def decoupled(export: Export, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """With the settings of docs/how_to/per_criterion_advantages.md."""
    return trained(
        export,
        tmp_path_factory.mktemp("decoupled"),
        "actor_rollout_ref.model.external_lib=rubric_judge.adapters.verl_advantages",
        "algorithm.adv_estimator=rubric_decoupled",
        "+reward.custom_reward_function.reward_kwargs.log_judgements=true",
        "trainer.val_before_train=false",
        "trainer.test_freq=-1",
        "trainer.save_freq=-1",
    )


def judged(tasks: dict[str, Task], rows: list[dict[str, Any]]) -> list[JudgeResult]:
    """Judge the dumped responses again, by the exported judge and without verl."""

    async def judge() -> list[JudgeResult]:
        one = load_judge(HybridConfig.model_validate(JUDGE))
        views = [tasks[row["gts"]].judge_view(answer_of(row["output"])) for row in rows]
        return [await one.judge(view) for view in views]

    return anyio.run(judge)


@dataclass(frozen=True)
class Group:
    """The responses to one prompt, and what we make of them."""

    rows: list[dict[str, Any]]
    z_GM: list[list[float]]
    weights_M: list[float]

    @property
    def rewards_G(self) -> list[float]:
        return [tied_reward(project(z_M, self.weights_M)) for z_M in self.z_GM]


def groups_of(tasks: dict[str, Task], run: Run, step: int) -> list[Group]:
    rows = run.rollouts(step)
    held: dict[str, list[tuple[dict[str, Any], JudgeResult]]] = defaultdict(list)
    for row, result in zip(rows, judged(tasks, rows), strict=True):
        held[row["gts"]].append((row, result))
    return [
        Group(
            [row for row, _ in members],
            [
                criterion_scores_z(result, tasks[task_id].rubric).tolist()
                for _, result in members
            ],
            [criterion.weight for criterion in tasks[task_id].rubric],
        )
        for task_id, members in held.items()
    ]


def updates_of(export: Export, run: Run) -> Iterator[dict[tuple[str, str], list[Any]]]:
    """Yield, for each optimiser step, masks and advantages by prompt and response."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(export.model)

    def text(tokens: list[int]) -> str:
        return tokenizer.decode(tokens, skip_special_tokens=True)

    for update in run.updates():
        found: dict[tuple[str, str], list[Any]] = defaultdict(list)
        names = ("prompts", "responses", "response_mask", "advantages")
        for prompt, response, mask_T, advantages_T in zip(
            *(update[name] for name in names), strict=True
        ):
            found[text(prompt), text(response)].append((mask_T, advantages_T))
        yield found


def assert_updates(export: Export, run: Run, expected_PG: Any) -> None:
    """Compare what the optimiser was given with the advantages of the same responses."""
    updates = list(updates_of(export, run))
    assert len(updates) == STEPS
    moved = set()
    for step, found in enumerate(updates, start=1):
        groups = groups_of(export.tasks, run, step)
        assert [len(group.rows) for group in groups] == [GROUP] * PROMPTS
        assert sum(map(len, found.values())) == GROUP * PROMPTS
        for group, wanted_G in zip(groups, expected_PG(groups), strict=True):
            for row, wanted in zip(group.rows, wanted_G, strict=True):
                for mask_T, advantages_T in found[row["input"], row["output"]]:
                    np.testing.assert_allclose(
                        advantages_T, wanted * np.array(mask_T), rtol=0, atol=1e-6
                    )
            if np.any(wanted_G):
                moved.add((step, len(group.weights_M)))
    assert {step for step, _ in moved} == {1, 2}
    assert len({count for _, count in moved}) > 1  # of rubrics that differ in length


def grpo(groups: list[Group]) -> Any:
    """Ours, in the scale of verl's GRPO, whose mean holds the response itself.

    It divides by the deviation and 1e-6.
    """
    rewards_PG = np.array([group.rewards_G for group in groups])
    deviations_P = np.std(rewards_PG, axis=1, ddof=1, keepdims=True)
    ours_PG = group_advantages(rewards_PG) * (GROUP - 1) / GROUP
    return ours_PG * deviations_P / (deviations_P + 1e-6)


def by_criterion(groups: list[Group]) -> Any:
    """Of the whole step, for its last division is by the deviation of the batch."""
    widest = max(len(group.weights_M) for group in groups)
    z_PGM = np.full((len(groups), GROUP, widest), np.nan)
    weights_PM = np.zeros((len(groups), widest))
    for p, group in enumerate(groups):
        count = len(group.weights_M)
        z_PGM[p, :, :count] = group.z_GM
        weights_PM[p, :count] = group.weights_M
    return decoupled_advantages(z_PGM, weights_PM)


def test_rewards_of_the_trainer_are_the_judges(export: Export, plain: Run) -> None:
    for step in (1, 2):
        groups = groups_of(export.tasks, plain, step)
        rewards = [reward for group in groups for reward in group.rewards_G]
        scores = [row["score"] for group in groups for row in group.rows]

        assert scores == pytest.approx(rewards, abs=1e-6)
        assert plain.logged(step, "critic/score/mean") == pytest.approx(
            np.mean(rewards), abs=1e-6
        )
        assert len(set(scores)) > 2


def test_grpo_of_the_exported_file(export: Export, plain: Run) -> None:
    assert_updates(export, plain, grpo)


def test_advantages_by_criterion_of_ragged_rubrics(
    export: Export, decoupled: Run
) -> None:
    assert_updates(export, decoupled, by_criterion)
    for step in (1, 2):
        for group in groups_of(export.tasks, decoupled, step):
            scores = [row["score"] for row in group.rows]
            assert scores == pytest.approx(group.rewards_G, abs=1e-6)


def test_the_trained_policy_is_left_behind(export: Export, plain: Run) -> None:
    import torch
    from safetensors.torch import load_file

    actor = plain.folder / f"runs/verl/global_step_{STEPS}/actor"
    merged = plain.folder / "merged"
    words = ["--backend", "fsdp", "--local_dir", actor, "--target_dir", merged]
    done = subprocess.run(
        [sys.executable, "-m", "verl.model_merger", "merge", *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr[-3000:]
    before = load_file(export.model / "model.safetensors")
    after = load_file(merged / "model.safetensors")
    moved = [
        name
        for name, value in before.items()
        if not torch.equal(after[name], value.to(after[name].dtype))
    ]
    assert len(moved) == len(before)


def test_the_policy_is_asked_no_hidden_text(export: Export, plain: Run) -> None:
    asked = {row["input"] for step in (1, 2) for row in plain.rollouts(step)}
    questions = {task.question for task in export.tasks.values()}

    assert len(asked) == PROMPTS
    assert all(any(question in text for question in questions) for text in asked)
    assert not any("zq" in text for text in asked)
