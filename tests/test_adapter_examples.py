"""Each example of another stack, whole: in the stack where it is installed, or on its interface."""

import asyncio
import importlib.util
import itertools
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import is_dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import yaml

from rubric_core import Criterion, Grounding, Rubric, Task, write_tasks

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "examples/adapters"
ANSWER = "It is the cross entropy."


@pytest.fixture
def tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Task]:
    """The tasks in the folder that an example runs in, beside its judge."""
    tasks = [
        Task(
            question=f"Which loss is minimised by model {number}?",
            grounding=Grounding("The model minimises the cross entropy of the labels."),
            rubric=Rubric(
                criteria=[
                    Criterion(
                        id="loss", weight=2.0, required_elements=["cross entropy"]
                    )
                ]
            ),
        )
        for number in range(4)
    ]
    (tmp_path / "dataset").mkdir()
    for name in ("train", "validation"):
        write_tasks(tmp_path / f"dataset/{name}.jsonl", tasks)
    (tmp_path / "judge.yaml").write_text("type: lexical\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tasks


@pytest.fixture
def example(
    tasks: list[Task], monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], ModuleType]:
    """Import an example in its folder, as the stack does that is given its file."""
    del tasks

    def load(stack: str) -> ModuleType:
        spec = importlib.util.spec_from_file_location(
            f"with_{stack}", EXAMPLES / f"with_{stack}.py"
        )
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, spec.name, module)
        spec.loader.exec_module(module)
        return module

    return load


def run(stack: str, *words: str) -> str:
    """Run an example as a command; return what it prints."""
    command = [sys.executable, str(EXAMPLES / f"with_{stack}.py"), *words]
    alone = {"HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    environment = {**os.environ, **alone}  # noqa: TID251
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def trl_words(model: Path, **settings: object) -> list[str]:
    """Flags for two short steps on a CPU."""
    given = {
        "model_name_or_path": model,
        "output_dir": "out",
        "max_steps": 2,
        "num_generations": 4,
        "per_device_train_batch_size": 4,
        "max_completion_length": 8,
        "logging_steps": 1,
        "report_to": "none",
        "bf16": False,
        "use_cpu": True,
        **settings,
    }
    return [word for name, value in given.items() for word in (f"--{name}", str(value))]


@pytest.mark.stacks
@pytest.mark.usefixtures("tasks")
def test_trl_trains_two_steps(make_chat_model: Callable[..., Path]) -> None:
    run("trl", *trl_words(make_chat_model(512), save_strategy="steps", save_steps=2))

    (state,) = Path("out").glob("checkpoint-2/trainer_state.json")
    steps = json.loads(state.read_text("utf-8"))["log_history"]
    assert [step["step"] for step in steps] == [1, 2]
    assert all(
        step["rubric/score"] == step["rewards/rubric_reward/mean"] for step in steps
    )
    assert {step["rubric/unavailable"] for step in steps} == {0.0}
    assert Path("out/model.safetensors").is_file()


@pytest.mark.stacks
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("flags", "saved"),
    [
        (["--dtype", "bfloat16", "--attn_implementation", "eager"], "bfloat16"),
        ([], "float32"),
        (
            [
                "--use_peft",
                "--lora_r",
                "2",
                "--lora_target_modules",
                "q_proj",
                "v_proj",
            ],
            "adapter",
        ),
    ],
    ids=["dtype", "default", "lora"],
)
def test_trl_trains_the_model_that_the_flags_describe(
    flags: list[str],
    saved: str,
    example: Callable[[str], ModuleType],
    make_chat_model: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("trl")
    import torch
    import transformers

    folder = make_chat_model(512)
    checkpoint = transformers.AutoModelForCausalLM.from_pretrained(folder).to(
        torch.bfloat16
    )
    checkpoint.save_pretrained(tmp_path / "bf16")
    transformers.AutoTokenizer.from_pretrained(folder).save_pretrained(
        tmp_path / "bf16"
    )
    words = trl_words(tmp_path / "bf16", max_steps=1, save_strategy="no")
    monkeypatch.setattr(sys, "argv", ["with_trl.py", *words, *flags])
    attention: list[str] = []
    module = example("trl")
    made = module.trainer_of

    def trainer_of(*given: object) -> object:
        trainer = made(*given)
        attention.append(trainer.model.config._attn_implementation)
        return trainer

    monkeypatch.setattr(module, "trainer_of", trainer_of)
    module.main()

    if saved == "adapter":
        assert json.loads(Path("out/adapter_config.json").read_text("utf-8"))["r"] == 2
        assert not Path("out/model.safetensors").exists()
    else:
        assert json.loads(Path("out/config.json").read_text("utf-8"))["dtype"] == saved
    assert attention == ["eager" if "eager" in flags else "sdpa"]


@pytest.mark.stacks
@pytest.mark.filterwarnings("ignore")
def test_trl_is_not_started_on_fewer_tasks_than_a_batch(
    example: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("trl")
    # Four tasks; 32 answers of 4 to a question are eight questions.
    words = trl_words(Path("absent"), gradient_accumulation_steps=8)
    monkeypatch.setattr(sys, "argv", ["with_trl.py", *words])

    with pytest.raises(
        SystemExit, match=r"4 tasks, and TRL samples 8 at once .*32 / .* 4\)"
    ):
        example("trl").main()


class Characters:
    """A tokenizer of one character a token; 0 is the end of a response."""

    def __call__(self, text: str, **_: object) -> dict[str, Any]:
        import torch

        return {"input_ids": torch.tensor([[ord(character) for character in text]])}

    def decode(self, ids: Sequence[int], **_: object) -> str:
        return "".join(chr(int(token)) if token else "</s>" for token in ids)


def verl_config(words: Sequence[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    """verl's configuration under these words: by hydra, or as hydra would, where it is not here."""
    verl = pytest.importorskip("verl")
    from omegaconf import OmegaConf

    if importlib.util.find_spec("hydra") is not None:
        hydra = importlib.import_module("hydra")
        with hydra.initialize_config_module("verl.trainer.config", version_base=None):
            return hydra.compose("ppo_trainer", overrides=list(words))
    path = Path(verl.__file__).parent / "trainer/config/_generated_ppo_trainer.yaml"
    config = OmegaConf.load(path)  # what hydra composes, as verl publishes it
    OmegaConf.set_struct(config, True)  # noqa: FBT003  # theirs
    for word in words:
        name, _, value = word.partition("=")
        value = OmegaConf.from_dotlist([f"value={value}"])._get_node("value")
        OmegaConf.update(
            config, name.lstrip("+"), value, force_add=name.startswith("+")
        )
    utils = ModuleType("hydra.utils")
    vars(utils)["instantiate"] = instantiated
    monkeypatch.setitem(sys.modules, "hydra", ModuleType("hydra"))
    monkeypatch.setitem(sys.modules, "hydra.utils", utils)
    return config


def instantiated(config: Any, **_: object) -> Any:
    """What hydra's `instantiate` makes of a section: the class of `_target_`, from inside out."""
    from omegaconf import OmegaConf

    def made(value: Any) -> Any:
        if isinstance(value, list):
            return [made(one) for one in value]
        if not isinstance(value, dict):
            return value
        inner = {name: made(one) for name, one in value.items() if name != "_target_"}
        if "_target_" not in value:
            return (
                OmegaConf.create(inner)
                if not any(map(is_dataclass, inner.values()))
                else inner
            )
        module, _, name = value["_target_"].rpartition(".")
        return getattr(importlib.import_module(module), name)(**inner)

    return made(OmegaConf.to_container(config, resolve=True))


@pytest.mark.stacks
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("gpus", [1, 8])
def test_verl_accepts_the_command_and_makes_the_steps_that_it_says(
    gpus: int,
    example: Callable[[str], ModuleType],
    make_chat_model: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("verl")
    import transformers

    module = example("verl")
    module.LARGEST_BATCH = 3
    count = module.write_rows()
    words = [*module.overrides(count), "actor_rollout_ref.model.path=Qwen/Qwen3-8B"]
    words += [f"trainer.n_gpus_per_node={gpus}", "data.dataloader_num_workers=0"]
    config = verl_config(words, monkeypatch)
    from verl.trainer.ppo.ray_trainer import RayPPOTrainer
    from verl.trainer.ppo.utils import need_critic, need_reference_policy
    from verl.utils.config import validate_config

    trainer = SimpleNamespace(
        config=config,
        tokenizer=transformers.AutoTokenizer.from_pretrained(make_chat_model(512)),
        processor=None,
    )
    reference, critic = need_reference_policy(config), need_critic(config)

    validate_config(config, use_reference_policy=reference, use_critic=critic)
    RayPPOTrainer._create_dataloader(trainer, None, None, None, None)

    assert (reference, critic) == (False, False)
    assert module.plan(words, count).startswith(
        f"{trainer.total_training_steps} steps of 3 tasks"
    )
    assert trainer.total_training_steps == 2
    assert config.trainer.save_freq == config.trainer.test_freq == 1
    assert list(config.trainer.logger) == ["console"]
    assert config.actor_rollout_ref.actor.ppo_mini_batch_size == 3


@pytest.mark.stacks
@pytest.mark.filterwarnings("ignore")
def test_verl_accepts_the_command_of_the_readme(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    (block,) = re.findall(r"main_ppo … \\\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    words = shlex.split(block.replace("$PWD", "/work").replace("\\\n", " "))
    config = verl_config(words, monkeypatch)
    from verl.utils.config import validate_config

    validate_config(config, use_reference_policy=False, use_critic=False)

    assert config.reward.custom_reward_function.name == "compute_score"


@pytest.mark.stacks
@pytest.mark.filterwarnings("ignore")
def test_verl_accepts_the_lines_of_the_page_on_advantages(
    example: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("verl")
    text = (ROOT / "docs/how_to/per_criterion_advantages.md").read_text("utf-8")
    (block,) = re.findall(
        r"^## verl\n+```text\n(.*?)^```", text, re.MULTILINE | re.DOTALL
    )
    module = example("verl")
    words = [*module.overrides(module.write_rows()), *block.split()]
    words += ["actor_rollout_ref.model.path=Qwen/Qwen3-8B"]
    config = verl_config(words, monkeypatch)
    from verl.trainer.ppo.core_algos import get_adv_estimator_fn
    from verl.trainer.ppo.utils import need_critic
    from verl.utils.config import validate_config
    from verl.utils.import_utils import import_external_libs

    validate_config(config, use_reference_policy=False, use_critic=False)
    library = config.actor_rollout_ref.model.external_lib
    monkeypatch.delitem(sys.modules, library, raising=False)  # imported before verl was
    import_external_libs(library)

    assert get_adv_estimator_fn(config.algorithm.adv_estimator) is not None
    assert not need_critic(config)
    reward = config.reward.custom_reward_function
    assert reward.reward_kwargs.log_judgements is True


def test_the_launcher_for_verl_refuses_what_would_train_nothing_or_on_another_reward(
    example: Callable[[str], ModuleType],
) -> None:
    module = example("verl")
    words = module.overrides(100)

    assert module.plan(words, 100) == (
        "2 steps of 64 tasks and 512 answers, in 2 passes over 100 tasks (36 are left out of each)"
    )
    assert module.plan([*words, "trainer.total_training_steps=1"], 100).startswith(
        "1 steps"
    )
    assert "data.train_batch_size=7" in module.overrides(7)
    with pytest.raises(
        SystemExit, match=r"128 of dataset/train.jsonl's 100 tasks: .* no step"
    ):
        module.plan([*words, "data.train_batch_size=128"], 100)
    with pytest.raises(
        SystemExit, match=r"^custom_reward_function\.path: an old key of verl"
    ):
        module.plan([*words, "custom_reward_function.path=mine.py"], 100)


@pytest.mark.stacks
@pytest.mark.filterwarnings("ignore")
def test_verl_loads_the_reward_and_judges_the_rows(
    example: Callable[[str], ModuleType],
    tasks: list[Task],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    verl = pytest.importorskip("verl")
    import numpy as np
    import torch
    from datasets import load_dataset
    from tensordict import TensorDict
    from verl.experimental.reward_loop.reward_manager.naive import NaiveRewardManager
    from verl.trainer.ppo.reward import get_custom_reward_fn

    module = example("verl")
    config = verl_config(module.overrides(module.write_rows()), monkeypatch)

    def sample(row: dict[str, Any]) -> object:
        tokens = torch.tensor([[ord(character) for character in ANSWER]])
        tensors = {
            "prompts": torch.zeros(1, 2).long(),
            "responses": tokens,
            "attention_mask": torch.ones(1, 2 + tokens.shape[1]).long(),
        }
        columns = {name: np.empty(1, dtype=object) for name in row}
        for name, value in row.items():
            columns[name][0] = value
        return verl.DataProto(
            batch=TensorDict(tensors, batch_size=1), non_tensor_batch=columns
        )

    async def judged(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        manager = NaiveRewardManager(config, Characters(), get_custom_reward_fn(config))
        manager.loop = asyncio.get_running_loop()
        return await asyncio.gather(*(manager.run_single(sample(row)) for row in rows))

    for files in (config.data.train_files, config.data.val_files):
        rows = load_dataset("parquet", data_files=files, split="train").to_list()
        assert [row["prompt"][0]["content"] for row in rows] == [
            one.question for one in tasks
        ]
        assert [one["reward_score"] for one in asyncio.run(judged(rows))] == [1.0] * 4
    assert config.algorithm.adv_estimator == "grpo"


@pytest.mark.stacks
@pytest.mark.filterwarnings("ignore")
def test_openrlhf_takes_the_flags_and_the_file_is_its_reward(
    example: Callable[[str], ModuleType],
    tasks: list[Task],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = importlib.util.find_spec("openrlhf")
    if found is None or found.origin is None:
        pytest.skip("openrlhf is not installed")
    # Without what the `__init__` beside it imports for other modules.
    utils = ModuleType("openrlhf.utils")
    utils.__path__ = [str(Path(found.origin).parent / "utils")]
    monkeypatch.setitem(sys.modules, "openrlhf.utils", utils)
    monkeypatch.delitem(sys.modules, "openrlhf.utils.agent", raising=False)
    agent = importlib.import_module("openrlhf.utils.agent")
    from rubric_train_openrlhf.cluster.command.refusals import check_command

    module = example("openrlhf")
    model = ["--actor.model_name_or_path", "a/model"]
    arguments = check_command([*model, *module.flags(module.write_rows())]).args
    text = Path(arguments.data.prompt_dataset).read_text("utf-8")
    rows = [json.loads(line) for line in text.splitlines()]
    executor = agent.SingleTurnAgentExecutor(arguments.reward.remote_url)

    class Engine:
        async def generate(self, *_: object, **__: object) -> object:
            output = SimpleNamespace(
                token_ids=[*map(ord, ANSWER), 0], finish_reason="stop", logprobs=None
            )
            return SimpleNamespace(outputs=[output])

    async def judged() -> list[dict[str, Any]]:
        sampling = SimpleNamespace(max_tokens=64, logprobs=None)
        asked = [
            (
                row[arguments.data.input_key],
                row[arguments.data.label_key],
                sampling,
                512,
            )
            for row in rows
        ]
        return await asyncio.gather(
            *(executor.execute(*one, Characters(), Engine()) for one in asked)
        )

    assert [row["question"] for row in rows] == [one.question for one in tasks]
    assert [output["reward"].tolist() for output in asyncio.run(judged())] == [
        [1.0]
    ] * 4


@pytest.mark.stacks
@pytest.mark.parametrize(
    ("count", "words", "gpus", "batch", "steps"),
    [
        (4, [], 8, 4, 2),
        (100, ["--actor.num_gpus_per_node", "2"], 2, 64, 2),
        (128, ["--actor.num_gpus_per_node=1"], 1, 64, 4),
    ],
)
def test_openrlhf_is_given_a_machine_that_it_can_run_on_and_full_batches(
    count: int,
    words: list[str],
    gpus: int,
    batch: int,
    steps: int,
    example: Callable[[str], ModuleType],
) -> None:
    if importlib.util.find_spec("openrlhf") is None:
        pytest.skip("openrlhf is not installed")
    from rubric_train_openrlhf.cluster.command.refusals import check_command

    command = [
        "--actor.model_name_or_path",
        "a/model",
        *example("openrlhf").flags(count, *words),
    ]
    checked = check_command([*command, *words])
    args = checked.args

    assert checked.warnings == ()
    # What `train` of train_ppo_ray.py asserts of a shared machine, and what its assertions leave.
    assert args.train.colocate_all
    assert args.vllm.enable_sleep
    assert args.vllm.num_engines * args.vllm.tensor_parallel_size == gpus
    assert args.actor.num_nodes * args.actor.num_gpus_per_node == gpus
    assert args.ref.num_nodes * args.ref.num_gpus_per_node == gpus
    # `prepare_datasets` takes the first so many rows, and this is its count of updates.
    rows = min(args.data.max_samples, count)
    answers = rows * args.rollout.n_samples_per_prompt
    assert rows % args.rollout.batch_size == 0
    assert args.rollout.batch_size == batch
    assert answers // args.train.batch_size * args.train.num_episodes == steps
    assert args.train.batch_size == batch * args.rollout.n_samples_per_prompt
    assert args.train.batch_size % gpus == 0


# --- stacks that are not in the lock: run where somebody has installed one ------------------------


@pytest.mark.stacks
@pytest.mark.filterwarnings("ignore")
def test_a_taskset_of_verifiers_loads_and_scores(
    example: Callable[[str], ModuleType], tasks: list[Task]
) -> None:
    vf = pytest.importorskip("verifiers.v1")
    from verifiers.v1 import graph, trace, types

    loaded = list(example("verifiers").RubricTaskset(vf.TasksetConfig()))
    reply = types.AssistantMessage(content=ANSWER)
    rewards: list[float] = []
    for one in loaded:
        rollout = vf.Trace(
            task=trace.TraceTask(type="RubricTask", data=one.data),
            agent=trace.AgentInfo(config=vf.AgentConfig()),
            nodes=[graph.MessageNode(message=reply, sampled=True)],
        )
        asyncio.run(one.score(rollout))
        rewards.append(rollout.rewards["rubric"].score)

    assert [one.data.prompt for one in loaded] == [task.question for task in tasks]
    assert rewards == [1.0] * 4


@pytest.mark.stacks
@pytest.mark.filterwarnings("ignore")
def test_skyrl_makes_the_environment_of_each_row(
    example: Callable[[str], ModuleType], tasks: list[Task]
) -> None:
    gym = pytest.importorskip("skyrl_gym")
    from datasets import load_dataset

    module = example("skyrl")
    count = module.write_rows()
    module.register()
    rewards: list[float] = []
    for row in load_dataset("parquet", data_files=str(module.ROWS), split="train"):
        made = gym.make(
            row["env_class"], env_config={}, extras={"reward_spec": row["reward_spec"]}
        )
        made.init(row["prompt"])
        rewards.append(made.step(ANSWER)["reward"])

    assert rewards == [1.0] * len(tasks)
    assert f"data.train_data=['{module.ROWS}']" in module.settings(count)


@pytest.mark.stacks
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("gpus", [1, 8])
def test_skyrl_accepts_the_settings(
    gpus: int, example: Callable[[str], ModuleType]
) -> None:
    pytest.importorskip("skyrl_gym")
    pytest.importorskip("skyrl.train.config")
    module = example("skyrl")
    words = ["trainer.policy.model.path=Qwen/Qwen3-8B"]
    words += [f"trainer.placement.policy_num_gpus_per_node={gpus}"]
    words += [f"generator.inference_engine.num_engines={gpus}"]

    config = module.configuration(module.write_rows(), words)

    # What its trainer asserts later.
    assert config.trainer.placement.ref_num_gpus_per_node == gpus
    assert config.trainer.train_batch_size == config.trainer.policy_mini_batch_size == 4
    assert config.trainer.logger == "console"


@pytest.mark.stacks
@pytest.mark.filterwarnings("ignore")
def test_the_openenv_server_asks_and_judges(
    example: Callable[[str], ModuleType], tasks: list[Task]
) -> None:
    pytest.importorskip("openenv")
    from starlette.testclient import TestClient

    module = example("openenv")
    exam = module.Exam()
    asked = exam.reset(seed=1)
    judged = asyncio.run(exam.step_async(module.Answer(message=ANSWER)))

    assert asked.question in {task.question for task in tasks}
    assert (judged.reward, judged.done) == (1.0, True)
    assert TestClient(module.app).post("/reset").json()["observation"]["question"]


@pytest.mark.stacks
@pytest.mark.filterwarnings("ignore")
def test_art_gathers_judged_groups(
    example: Callable[[str], ModuleType], tasks: list[Task]
) -> None:
    pytest.importorskip("art")
    from openai.types.chat.chat_completion import Choice

    choice = Choice.model_validate(
        {
            "index": 0,
            "finish_reason": "stop",
            "message": {"role": "assistant", "content": ANSWER},
        }
    )

    async def create(**_: object) -> object:
        return SimpleNamespace(choices=[choice])

    completions = SimpleNamespace(completions=SimpleNamespace(create=create))
    model = SimpleNamespace(
        openai_client=lambda: SimpleNamespace(chat=completions),
        get_inference_name=lambda: "m",
    )
    module = example("art")
    score = module.rubric_rewards(judge=module.JUDGE, tasks=module.TASKS)
    views = [task.policy_view() for task in tasks]

    groups = asyncio.run(module.gather(model, views, score))

    assert [[one.reward for one in group.trajectories] for group in groups] == [
        [1.0] * 8
    ] * 4


@pytest.mark.stacks
@pytest.mark.filterwarnings("ignore")
def test_the_groups_of_tinker_are_rolled_out_and_judged(
    example: Callable[[str], ModuleType],
    tasks: list[Task],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tinker = pytest.importorskip("tinker")
    rollouts = pytest.importorskip("tinker_cookbook.rl.rollouts")
    completers = pytest.importorskip("tinker_cookbook.completers")

    class Renderer:
        def get_stop_sequences(self) -> list[str]:
            return []

        def build_generation_prompt(self, messages: Sequence[Any]) -> object:
            return tinker.ModelInput.from_ints(
                [ord(one) for one in messages[0]["content"]]
            )

        def parse_response(self, tokens: Sequence[int]) -> tuple[dict[str, str], bool]:
            return {"role": "assistant", "content": "".join(map(chr, tokens))}, True

    class Policy(completers.TokenCompleter):
        async def __call__(self, *_: object, **__: object) -> object:
            tokens = [ord(character) for character in ANSWER]
            return completers.TokensWithLogprobs(
                tokens=tokens, maybe_logprobs=[0.0] * len(tokens)
            )

    module = example("tinker")
    monkeypatch.setattr(module, "get_tokenizer", lambda _: None)
    monkeypatch.setattr(module.renderers, "get_renderer", lambda *_: Renderer())
    config = module.configuration("Qwen/Qwen3-8B", "runs")

    async def rewards() -> list[list[float]]:
        data, _ = await config.dataset_builder()
        groups = [
            await rollouts.do_group_rollout(builder, Policy())
            for index in range(len(data))
            for builder in data.get_batch(index)
        ]
        return [group.get_total_rewards() for group in groups]

    assert asyncio.run(rewards()) == [[1.0] * 8] * len(tasks)


@pytest.mark.stacks
@pytest.mark.filterwarnings("ignore")
def test_inspect_ai_evaluates_and_scores(
    example: Callable[[str], ModuleType], tasks: list[Task]
) -> None:
    inspect_ai = pytest.importorskip("inspect_ai")
    model = pytest.importorskip("inspect_ai.model")
    outputs = [model.ModelOutput.from_content("m", ANSWER) for _ in tasks]
    for output in outputs:
        output.usage = (
            model.ModelUsage()
        )  # left out, tokens are counted by a file from afar
    policy = model.get_model("mockllm/model", custom_outputs=outputs)

    made = example("inspect_ai").rubric_eval(tasks="dataset/train.jsonl")
    (log,) = inspect_ai.eval(made, model=policy, display="none")

    assert log.status == "success", log.error
    assert log.results.scores[0].metrics["mean"].value == 1.0
    assert {sample.id for sample in log.samples} == {task.task_id for task in tasks}


# --- stacks that run on a GPU or on another Python only: the interface of their snapshots ---------


def interface(stack: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The test of an adapter, which has the interface that the adapter was checked against."""
    path = ROOT / f"packages/rubric-judge/tests/adapters/test_{stack}.py"
    spec = importlib.util.spec_from_file_location(f"interface_of_{stack}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module


def installed(
    modules: dict[str, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, values in modules.items():
        module = ModuleType(name)
        vars(module).update(values)
        monkeypatch.setitem(sys.modules, name, module)


def test_the_launcher_for_nemo_rl_registers_and_its_rows_are_judged(
    example: Callable[[str], ModuleType],
    tasks: list[Task],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    registries: dict[str, dict[str, Any]] = {
        "environments": {},
        "actors": {},
        "processors": {},
    }
    modules = interface("nemo_rl", monkeypatch).modules(registries)
    modules["nemo_rl.data"] = {}
    modules["nemo_rl.data.processors"] = {
        "register_processor": registries["processors"].__setitem__
    }
    installed(modules, monkeypatch)
    from rubric_judge.adapters import nemo_rl

    nemo_rl.environment_class.cache_clear()
    module = example("nemo_rl")
    module.write_rows()
    module.register()
    config = yaml.safe_load(Path("rubric.yaml").read_text("utf-8"))
    assert config["grpo"]["num_prompts_per_step"] == len(tasks)  # it drops what is less
    assert config["policy"]["train_global_batch_size"] == 8 * len(
        tasks
    )  # one update a rollout
    assert config["checkpointing"]["save_period"] == 1
    train, default = config["data"]["train"], config["data"]["default"]
    rows = [
        json.loads(line)
        for line in Path(train["data_path"]).read_text("utf-8").splitlines()
    ]
    process = registries["processors"][default["processor"]]

    class Tokenizer(Characters):
        def apply_chat_template(self, messages: Sequence[Any], **_: object) -> str:
            return f"{messages[0]['content']}|"

    def processed(row: dict[str, str]) -> dict[str, Any]:
        # As ResponseDataset has them.
        messages = [{"content": row[train[key]]} for key in ("input_key", "output_key")]
        return process(
            {"messages": messages, "task_name": "t"}, None, Tokenizer(), 32, 0
        )

    samples = [processed(row) for row in rows]
    logs = [
        [*one["message_log"], {"role": "assistant", "content": ANSWER}]
        for one in samples
    ]
    environment = nemo_rl.environment_class()(config["env"][default["env_name"]])
    found = environment.step(logs, [one["extra_env_info"] for one in samples])
    nemo_rl.environment_class.cache_clear()

    assert default["env_name"] in registries["environments"]
    assert [one["extra_env_info"]["task_id"] for one in samples] == [
        t.task_id for t in tasks
    ]
    assert found.rewards.tolist() == [1.0] * 4
    assert {(one["length"], one["loss_multiplier"]) for one in samples} == {(32, 0.0)}


def test_the_server_for_nemo_gym_judges_the_rows_that_it_writes(
    example: Callable[[str], ModuleType],
    tasks: list[Task],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    testclient = pytest.importorskip("fastapi.testclient")
    installed(interface("nemo_gym", monkeypatch).modules(), monkeypatch)
    from rubric_judge.adapters import nemo_gym

    nemo_gym.bind.cache_clear()
    module = example("nemo_gym")
    module.write()
    config = yaml.safe_load((module.FOLDER / "configs/rubric.yaml").read_text("utf-8"))
    settings = config["rubric"]["resources_servers"]["rubric"]
    rows = (module.FOLDER / "data/train.jsonl").read_text("utf-8").splitlines()
    server = module.RubricResourcesServer(
        config=nemo_gym.RubricResourcesServerConfig(**settings)
    )
    client = testclient.TestClient(server.setup_webserver())
    message = {"type": "message", "role": "assistant", "content": [{"text": ANSWER}]}

    answers = [
        client.post(
            "/verify",
            json={**json.loads(row), "response": {"id": "r", "output": [message]}},
        ).json()
        for row in rows
    ]
    nemo_gym.bind.cache_clear()

    assert [one["reward"] for one in answers] == [1.0] * len(tasks)
    agents = {json.loads(row)["agent_ref"]["name"] for row in rows}
    assert agents == {"rubric_simple_agent"} <= set(config)


def test_the_functions_for_slime_judge_the_rows_that_the_launcher_writes(
    example: Callable[[str], ModuleType],
    tasks: list[Task],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stack = interface("slime", monkeypatch)
    module = example("slime")
    words = module.flags(module.write_rows())
    given = dict(itertools.pairwise(words))
    rows = map(json.loads, module.ROWS.read_text("utf-8").splitlines())
    samples = [
        stack.Sample(
            group_index=number, index=8 * number + place, response=answer, **row
        )
        for number, row in enumerate(rows)
        for place, answer in enumerate([ANSWER, "No idea."] * 4)
    ]

    async def judged() -> None:
        for sample in samples:
            sample.reward = await module.reward(stack.arguments(), sample)

    asyncio.run(judged())
    data = stack.train_data(stack.arguments(), module.post_process, samples)

    assert [one.label for one in samples[::8]] == [task.task_id for task in tasks]
    assert [one.reward for one in samples] == [1.0, 0.0] * 16
    assert data["rewards"][:2] == [-data["rewards"][1], -data["rewards"][0]]
    assert data["rewards"][0] > 1
    assert given["--custom-rm-path"] == "with_slime.reward"
    assert given["--num-rollout"] == "2"  # of 4 tasks each, in two passes
    assert int(given["--global-batch-size"]) == len(samples)
    assert int(given["--n-samples-per-prompt"]) == 8


def test_the_verifier_of_harbor_writes_rewards_beside_its_tests(
    tasks: list[Task],
) -> None:
    tests, logs = Path("tests"), Path("logs")
    for folder in (tests, logs):
        folder.mkdir()
    shutil.copy(EXAMPLES / "with_harbor.py", tests / "verify.py")
    shutil.copy("judge.yaml", tests)
    write_tasks(tests / "rubric_task.jsonl", tasks[:1])
    (logs / "answer.md").write_text(ANSWER, encoding="utf-8")
    command = [sys.executable, tests / "verify.py", logs / "answer.md", logs]

    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    written = json.loads((logs / "reward.json").read_text("utf-8"))
    assert written == {"reward": 1.0, "rubric/loss": 1.0}
