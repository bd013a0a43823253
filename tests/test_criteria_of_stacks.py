"""One planted set of judgements gives the same figures from our run and from each stack's log."""

import ast
import asyncio
import functools
import hashlib
import importlib.util
import json
import math
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pydantic import BaseModel

from rubric_core import (
    Criterion,
    CriterionKind,
    Grounding,
    JudgeResult,
    JudgeView,
    Pooling,
    Reason,
    Rubric,
    Task,
    Usage,
    answer_of,
    write_tasks,
)
from rubric_judge.adapters import nemo_gym, scoring
from rubric_judge.adapters.verl import compute_score
from rubric_judge.pool.ledger.store import Ledger
from rubric_judge.quality.criteria.measure import measure
from rubric_judge.quality.criteria.report import CriteriaReport
from rubric_judge.quality.criteria.sources import open_log
from rubric_judge.quality.responses import JudgedResponse, write_judgements
from rubric_judge.testing import ScriptedJudge
from rubric_train_openrlhf.config.train import parse_config
from rubric_train_openrlhf.run.folder import RunFolder
from rubric_train_openrlhf.step.credit import Crediting
from rubric_train_openrlhf.step.rewards import Sizes

GROUP = 4
KINDS = (CriterionKind.CAUSE, CriterionKind.DEFINITION, None)
Batch = tuple[int, list[tuple[Task, list[str]]]]
"""A step, and its groups."""


def make_task(number: int) -> Task:
    """A task with an id that repeats, ids of its own with kinds, and one without weight."""
    own = [
        Criterion(
            id=f"own_{number}_{j}",
            weight=1.0 + (number + j) % 3 / 3,
            kind=KINDS[(number + j) % 3],
        )
        for j in range(3)
    ]
    shared = Criterion(id="says_what_it_does", weight=2.0)
    return Task(
        question=f"What does function {number} do?",
        grounding=Grounding(f"Function {number} adds."),
        rubric=Rubric(criteria=(shared, *own, Criterion(id="style", weight=0.0))),
    )


TASKS = [make_task(number) for number in range(10)]
BY_ID = {task.task_id: task for task in TASKS}
BATCHES: list[Batch] = [
    (
        step,
        [
            (task, [f"answer {g} to {task.task_id}" for g in range(GROUP)])
            for task in part
        ],
    )
    for step, part in ((1, TASKS[:5]), (2, TASKS[5:]))
]


def planted(view: JudgeView) -> JudgeResult:
    """Judge by a digest of task and answer: scored, invalid or not reached, with usage."""
    digest = hashlib.sha256(f"{view.task_id} {view.response}".encode()).digest()
    usage = Usage(prompt_tokens=400 + digest[0], completion_tokens=20 + digest[1] % 30)
    if digest[2] < 20:
        return JudgeResult.invalid(Reason.NOT_JSON, judge="planted", usage=usage)
    if digest[2] < 40:
        return JudgeResult.unavailable(Reason.TIMEOUT, judge="planted")
    levels = (0.0, 1 / 3, 1.0, 1.0)
    scores = {
        criterion.id: criterion.weight * levels[digest[3 + j] % 4]
        for j, criterion in enumerate(view.rubric)
    }
    return JudgeResult.scored(view.rubric, scores, judge="planted").with_call(
        usage=usage
    )


def judged(task: Task, response: str) -> JudgeResult:
    return planted(task.judge_view(answer_of(response)))


def own_run(folder: Path, batches: Sequence[Batch] = BATCHES) -> Path:
    """Write the judgements of a run, by the code that writes every run's."""
    config = parse_config(
        {
            "model": {"type": "path", "path": folder},
            "data": {"train": folder / "t.jsonl"},
            "steps": 2,
            "out": folder,
        }
    )
    crediting = Crediting(config, pooling=Pooling.of(TASKS))
    for step, groups in batches:
        results = [[judged(task, text) for text in texts] for task, texts in groups]
        sizes = Sizes.of(
            [[9] * len(group) for group in results], [[True] * len(g) for g in results]
        )
        _, rows = crediting.of_step(step, results, [task for task, _ in groups], sizes)
        RunFolder(folder).write_judgements(step, rows)
    return folder


def measured(*paths: Path, by: Any = "criterion", **options: Any) -> CriteriaReport:
    """Measure a log as the command does, without naming its format."""
    log = open_log(paths, **options)
    tasks = options.get("tasks") or {}
    report = measure(log.answers, source=log.format, by=by, tasks=tasks.values())
    return report.model_copy(update={"notes": tuple(log.all_notes())})


def assert_same(report: CriteriaReport, own: CriteriaReport) -> None:
    """Every figure to 1e-12, and every count."""
    apart = {"source", "notes", "steps", "rows"}
    assert_close(report.model_dump(exclude=apart), own.model_dump(exclude=apart))
    rows = {row.name: row.model_dump() for row in own.rows}
    assert {row.name for row in report.rows} == rows.keys()
    for row in report.rows:
        assert_close(row.model_dump(), rows[row.name])


def assert_close(figures: dict[str, Any], own: dict[str, Any]) -> None:
    assert figures.keys() == own.keys()
    for name, value in figures.items():
        if isinstance(value, float) and isinstance(own[name], float):
            # Sums of thousands of tokens have fewer decimals than shares.
            assert abs(value - own[name]) <= 1e-12 * max(1.0, abs(own[name])), name
        else:
            assert value == own[name], name


@pytest.fixture
def run(tmp_path: Path) -> Path:
    (tmp_path / "run").mkdir()
    return own_run(tmp_path / "run")


@pytest.fixture
def tasks_file(tmp_path: Path) -> str:
    write_tasks(tmp_path / "tasks.jsonl", TASKS)
    (tmp_path / "judge.yaml").write_text("type: lexical\n", encoding="utf-8")
    return str(tmp_path / "tasks.jsonl")


def judge_file(tasks_file: str) -> str:
    """Name a configuration; the judge that is made of it is the planted one."""
    return str(Path(tasks_file).with_name("judge.yaml"))


@pytest.fixture(autouse=True)
def planted_judge(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedJudge]:
    """The judge of every adapter; scorers are closed."""
    made: list[scoring.RubricScorer] = []
    make = scoring.RubricScorer.__init__

    def recorded(self: scoring.RubricScorer, **settings: Any) -> None:
        make(self, **settings)
        made.append(self)

    judge = ScriptedJudge(planted)
    monkeypatch.setattr(scoring, "load_replicas", lambda _: (judge,))
    monkeypatch.setattr(scoring.RubricScorer, "__init__", recorded)
    monkeypatch.setattr(scoring, "_shared", {})
    yield judge
    for scorer in made:
        scorer.close()


def test_the_planted_set_holds_what_a_log_may_hold(run: Path) -> None:
    own = measured(run, tasks=BY_ID)

    assert (own.steps, own.prompts, own.groups, own.responses) == (2, 10, 10, 40)
    assert own.invalid
    assert own.unavailable
    assert {row.name for row in own.rows} == {
        "says_what_it_does",
        "kind.cause",
        "kind.definition",
        "kind.none",
    }
    assert any(row.constant for row in own.rows)
    assert any(row.held_down for row in own.rows)
    assert math.fsum(row.gradient or 0 for row in own.rows) == pytest.approx(1)
    assert own.idle_tokens
    assert own.tokens == pytest.approx(
        sum(
            result.usage.prompt_tokens + result.usage.completion_tokens
            for _, groups in BATCHES
            for task, texts in groups
            for result in (judged(task, text) for text in texts)
            if result.usage
        )
    )


def test_a_ledger_and_a_file_of_judgements(run: Path, tmp_path: Path) -> None:
    rows: list[JudgedResponse] = []
    with Ledger(tmp_path / "all.ledger") as ledger:
        for _, groups in BATCHES:
            for task, texts in groups:
                for text in texts:
                    view = task.judge_view(text)
                    key = ledger.key(view, judge="planted")
                    ledger.record(key, view, planted(view), judge="planted")
                    rows.append(JudgedResponse(len(rows) + 1, view, planted(view)))
    write_judgements(tmp_path / "judged.jsonl", rows)

    for by in ("criterion", "prompt"):
        own = measured(run, tasks=BY_ID, by=by)
        assert_same(measured(tmp_path / "all.ledger", tasks=BY_ID, by=by), own)
        assert_same(measured(tmp_path / "judged.jsonl", tasks=BY_ID, by=by), own)


# --- NeMo-Gym, on the interface of its snapshot 07d6b0d07 -----------------------------------------


class JudgeError(Exception):
    pass


def failsafe(verify: Callable[..., Any]) -> Callable[..., Any]:
    """Do what the snapshot's `judge_failsafe` does."""
    from fastapi.responses import JSONResponse

    @functools.wraps(verify)
    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        try:
            return await verify(*args, **kwargs)
        except JudgeError as error:
            failed = {
                "reward": 0.0,
                "_ng_failure_class": "judge_failed",
                "_ng_failure_judge_error": str(error),
            }
            return JSONResponse(content=kwargs["body"].model_dump() | failed)

    return wrapper


class CreateParams(BaseModel):
    input: list[dict[str, Any]]


class Response(BaseModel):
    id: str
    output: list[dict[str, Any]]


class BaseVerifyRequest(BaseModel):
    responses_create_params: CreateParams
    response: Response


class BaseVerifyResponse(BaseVerifyRequest):
    reward: float


class BaseResourcesServerConfig(BaseModel):
    name: str = "rubric"


class ReverifyMode(StrEnum):
    STATELESS = "stateless"
    UNKNOWN = "unknown"


class SimpleResourcesServer(BaseModel):
    config: BaseResourcesServerConfig

    def setup_webserver(self) -> Any:
        import fastapi

        app = fastapi.FastAPI()
        app.post("/verify")(failsafe(self.verify))
        return app

    async def verify(self, body: BaseVerifyRequest) -> BaseVerifyResponse:
        raise NotImplementedError


@pytest.fixture
def gym(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    server = (
        BaseResourcesServerConfig,
        BaseVerifyRequest,
        BaseVerifyResponse,
        ReverifyMode,
        SimpleResourcesServer,
    )
    modules: dict[str, dict[str, Any]] = {
        "nemo_gym": {},
        "nemo_gym.judge": {"JudgeError": JudgeError},
        "nemo_gym.base_resources_server": {kind.__name__: kind for kind in server},
    }
    for name, values in modules.items():
        module = ModuleType(name)
        vars(module).update(values)
        monkeypatch.setitem(sys.modules, name, module)
    nemo_gym.bind.cache_clear()
    yield
    nemo_gym.bind.cache_clear()


ANSWER = {
    "id": "r",
    "created_at": 1.0,
    "model": "m",
    "object": "response",
    "parallel_tool_calls": False,
    "tool_choice": "auto",
    "tools": [],
}


def gym_rollouts(
    folder: Path, tasks_file: str, *, log_judgements: bool, **server_fields: Any
) -> Path:
    """Have the server judge, and keep its answers as `rollout_collection` does."""
    testclient = pytest.importorskip("fastapi.testclient")
    config = nemo_gym.RubricResourcesServerConfig(
        name="rubric",
        host="127.0.0.1",
        port=1,
        entrypoint="app.py",
        domain="knowledge",
        judge=judge_file(tasks_file),
        tasks=tasks_file,
        log_judgements=log_judgements,
    )
    server = nemo_gym.RubricResourcesServer(config=config, **server_fields)
    client = testclient.TestClient(server.setup_webserver())
    lines: dict[str, list[str]] = {"rollouts": [], "rollouts_failures": []}
    for number, (task, texts) in enumerate(
        group for _, part in BATCHES for group in part
    ):
        for rollout, text in enumerate(texts):
            message = {
                "id": "m",
                "type": "message",
                "role": "assistant",
                "status": "completed",
                "content": [{"type": "output_text", "text": text, "annotations": []}],
            }
            asked = [{"role": "user", "content": task.policy_view().message}]
            row = {
                "responses_create_params": {"input": asked},
                "response": {**ANSWER, "output": [message]},
                "task_id": task.task_id,
            }
            result = client.post("/verify", json=row).json()
            result |= {"_ng_task_index": number, "_ng_rollout_index": rollout}
            failed = "_ng_failure_class" in result
            lines["rollouts_failures" if failed else "rollouts"].append(
                json.dumps(result)
            )
    for name, texts in lines.items():
        (folder / f"{name}.jsonl").write_text("\n".join(texts) + "\n", encoding="utf-8")
    return folder / "rollouts.jsonl"


@pytest.mark.stacks
@pytest.mark.filterwarnings("ignore")
def test_nemo_gym_itself(run: Path, tasks_file: str, tmp_path: Path) -> None:
    """The same by its own classes, where they are installed: 0.7.0 asks for Python 3.12."""
    utils = pytest.importorskip("nemo_gym.server_utils")
    client = utils.ServerClient.model_construct()
    nemo_gym.bind.cache_clear()

    file = gym_rollouts(tmp_path, tasks_file, log_judgements=True, server_client=client)

    for by in ("criterion", "prompt"):
        assert_same(measured(file, by=by), measured(run, tasks=BY_ID, by=by))


@pytest.mark.usefixtures("gym")
def test_nemo_gym(run: Path, tasks_file: str, tmp_path: Path) -> None:
    file = gym_rollouts(tmp_path, tasks_file, log_judgements=True)

    for by in ("criterion", "prompt"):
        # Kinds and weights stand in the record itself.
        assert_same(measured(file, by=by), measured(run, tasks=BY_ID, by=by))


@pytest.mark.usefixtures("gym")
def test_nemo_gym_without_the_record_has_pooled_means_and_needs_the_tasks(
    tasks_file: str, tmp_path: Path
) -> None:
    file = gym_rollouts(tmp_path, tasks_file, log_judgements=False)

    alike = measured(file)
    weighed = measured(file, tasks=BY_ID)

    assert any("weighed alike" in note for note in alike.notes)
    assert not any("weighed alike" in note for note in weighed.notes)
    shared = {row.name: row for row in weighed.rows}["says_what_it_does"]
    own = measured(own_run(tmp_path / "again"), tasks=BY_ID)
    mine = {row.name: row for row in own.rows}["says_what_it_does"]
    # One criterion a pool: the same to the last bits, the gradient within its pool's.
    for name in ("groups", "scores", "invalid", "unavailable"):
        assert getattr(shared, name) == getattr(mine, name)
    for name in ("share", "mean", "spread", "constant", "gradient"):
        assert getattr(shared, name) == pytest.approx(getattr(mine, name), abs=1e-12)


# --- verl 0.9.1 -----------------------------------------------------------------------------------


def verl_writer(module: str) -> Callable[..., None]:
    """Return verl's own writer of dumps; its module asks for more than a CPU has to import."""
    import numpy as np

    spec = importlib.util.find_spec("verl")
    if spec is None or spec.origin is None:
        pytest.skip("verl is not installed")
    tree = ast.parse(
        (Path(spec.origin).parent / "trainer/ppo" / module).read_text("utf-8")
    )
    (writer,) = (
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.name == "_write_generations"
    )
    writer.decorator_list = []
    names: dict[str, Any] = {"json": json, "os": os, "np": np}
    exec(compile(ast.Module([writer], []), module, "exec"), names)  # noqa: S102  # verl's code
    return names["_write_generations"]


@pytest.mark.stacks
@pytest.mark.parametrize("module", ["ray_trainer.py", "v1/trainer_base.py"])
def test_verl(run: Path, tasks_file: str, tmp_path: Path, module: str) -> None:
    import numpy as np

    write = verl_writer(module)
    dumps = tmp_path / "dumps"

    async def scored(task: Task, text: str) -> dict[str, Any]:
        return await compute_score(
            "rubric",
            text,
            task.task_id,
            judge=judge_file(tasks_file),
            tasks=tasks_file,
            log_judgements=True,
        )

    for step, groups in BATCHES:
        pairs = [(task, text) for task, texts in groups for text in texts]
        infos = [asyncio.run(scored(task, text)) for task, text in pairs]
        # As the agent loop gathers them, and the trainer before it dumps.
        extra = {
            key: np.array([info[key] for info in infos]).tolist() for key in infos[0]
        }
        write(
            [task.question for task, _ in pairs],
            [text for _, text in pairs],
            [task.task_id for task, _ in pairs],
            extra.pop("score"),
            extra,
            str(dumps),
            step,
        )

    for by in ("criterion", "prompt"):
        assert_same(measured(dumps, by=by), measured(run, tasks=BY_ID, by=by))


# --- verifiers 0.4.0 ------------------------------------------------------------------------------


@pytest.mark.stacks
@pytest.mark.filterwarnings("ignore")
def test_verifiers(run: Path, tasks_file: str, tmp_path: Path) -> None:
    vf = pytest.importorskip("verifiers.v1")
    from verifiers.v1 import episode as episodes
    from verifiers.v1 import graph, trace, types
    from verifiers.v1.utils.trace_store import write_episode

    from rubric_judge.adapters.verifiers import rubric_reward

    judge = rubric_reward(
        judge=judge_file(tasks_file), tasks=tasks_file, log_judgements=True
    )

    class RubricTask(vf.Task[vf.TaskData]):
        @vf.reward(weight=1.0)
        async def rubric(self, trace: vf.Trace) -> float:
            return await judge(self.data, trace)

    (tmp_path / "eval").mkdir()
    for _, groups in BATCHES:
        for task, texts in groups:
            asked = RubricTask(
                vf.TaskData(id=task.task_id, prompt=task.question), vf.TaskConfig()
            )
            about = trace.TraceTask(type="RubricTask", data=asked.data, key=asked.key)
            for text in texts:
                reply = types.AssistantMessage(content=text)
                rollout = vf.Trace(
                    task=about,
                    agent=trace.AgentInfo(config=vf.AgentConfig()),
                    nodes=[graph.MessageNode(message=reply, sampled=True)],
                )
                try:
                    asyncio.run(asked.score(rollout))
                    rollout.ok = True
                except vf.errors.TaskError as error:
                    rollout.errors.append(
                        trace.Error(type="TaskError", message=str(error))
                    )
                write_episode(
                    tmp_path / "eval",
                    episodes.Episode(task=about, traces=[rollout], ok=rollout.ok),
                )

    for by in ("criterion", "prompt"):
        assert_same(
            measured(tmp_path / "eval", by=by), measured(run, tasks=BY_ID, by=by)
        )


# --- TRL 1.16.0 -----------------------------------------------------------------------------------


@pytest.mark.stacks
@pytest.mark.filterwarnings("ignore")
def test_trl(tmp_path: Path, tasks_file: str) -> None:
    """Real steps of a tiny policy, whose own answers are planted judgements too."""
    pytest.importorskip("trl")
    from rubric_judge.adapters.trl import rubric_reward

    reward = rubric_reward(
        judge=judge_file(tasks_file), tasks=tasks_file, log_judgements=True
    )
    batches: list[Batch] = []

    async def recorded(
        prompts: list[Any], completions: list[Any], **columns: Any
    ) -> list[float | None]:
        ids = columns["task_id"]
        starts = range(0, len(ids), GROUP)
        groups = [(BY_ID[ids[at]], completions[at : at + GROUP]) for at in starts]
        batches.append((len(batches) + 1, groups))
        return await reward(prompts, completions, **columns)

    rows = [{"prompt": task.question, "task_id": task.task_id} for task in TASKS]
    trained = tiny_trainer(tmp_path / "trl", recorded, rows)
    trained.train()
    files = sorted((tmp_path / "trl/completions").glob("*.parquet"))
    own = own_run(tmp_path / "own", batches)

    # Two updates of a batch: TRL writes each batch twice.
    assert len(files) == trained.state.global_step == 2 * len(batches) > 4
    for by in ("criterion", "prompt"):
        report = measured(tmp_path / "trl", by=by)
        assert_same(report, measured(own, tasks=BY_ID, by=by))
        assert any("repeat the batch" in note for note in report.notes)


@pytest.mark.stacks
@pytest.mark.filterwarnings("ignore")
def test_reward_functions_of_trl_are_criteria(tmp_path: Path) -> None:
    """Real steps with two functions of somebody else, one of which does not always apply."""
    pytest.importorskip("trl")
    letters: list[float] = []
    halves: list[float | None] = []

    def has_letters(completions: list[str], **_: Any) -> list[float]:
        letters.extend(float(any(map(str.isalpha, text))) for text in completions)
        return letters[-len(completions) :]

    def is_lower(completions: list[str], **_: Any) -> list[float | None]:
        halves.extend(
            None if text < "5" else text.count("e") / 2 for text in completions
        )
        return halves[-len(completions) :]

    rows = [{"prompt": task.question} for task in TASKS]
    tiny_trainer(tmp_path / "trl", [has_letters, is_lower], rows).train()

    report = measured(tmp_path / "trl")

    by_name = {row.name: row for row in report.rows}
    applied = [half for half in halves if half is not None]
    assert 0 < len(applied) < len(halves) == report.responses
    assert by_name["has_letters"].mean == pytest.approx(sum(letters) / len(letters))
    assert by_name["is_lower"].mean == pytest.approx(
        sum(applied) / len(applied), abs=1e-7
    )
    assert by_name["is_lower"].scores == len(applied)
    assert report.groups == len(letters) / GROUP
    assert any("weighed alike" in note for note in report.notes)


def tiny_trainer(out: Path, reward: Any, rows: list[dict[str, Any]]) -> Any:
    """Make a real `GRPOTrainer` of a tiny Llama that logs its completions."""
    import datasets
    import torch
    import transformers
    import trl
    from tokenizers import Tokenizer, models, pre_tokenizers

    characters = {chr(code): index + 3 for index, code in enumerate(range(32, 127))}
    words = Tokenizer(
        models.WordLevel({"<unk>": 0, "<s>": 1, "</s>": 2, **characters}, "<unk>")
    )
    words.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=words,
        unk_token="<unk>",  # noqa: S106  # a token of a vocabulary
        eos_token="</s>",  # noqa: S106
        pad_token="</s>",  # noqa: S106
    )
    config = transformers.LlamaConfig(
        vocab_size=98,
        hidden_size=32,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        bos_token_id=1,
        eos_token_id=2,
    )
    torch.manual_seed(0)
    settings = trl.GRPOConfig(
        output_dir=str(out),
        num_train_epochs=1,
        per_device_train_batch_size=8,
        num_generations=GROUP,
        num_iterations=2,
        max_completion_length=8,
        generation_kwargs={"min_new_tokens": 8},  # a blank answer is not judged
        learning_rate=1e-3,
        logging_steps=1,
        log_completions=True,
        report_to=[],
        use_cpu=True,
        bf16=False,
        save_strategy="no",
        disable_tqdm=True,
    )
    return trl.GRPOTrainer(
        model=transformers.LlamaForCausalLM(config),
        processing_class=tokenizer,
        reward_funcs=reward,
        args=settings,
        train_dataset=datasets.Dataset.from_list(rows),
    )
