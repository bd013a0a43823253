"""Tasks and judges as the files that a stack is configured with."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rubric_core import Criterion, Grounding, JudgeView, Rubric, Task, write_tasks
from rubric_judge.adapters import scoring

GOOD = (
    "The model minimises the cross entropy of the labels, and the loss is a likelihood."
)


@pytest.fixture
def tasks() -> dict[str, Task]:
    """Two tasks by id; the second has a criterion of weight 0."""
    first = Task(
        question="Which loss is minimised?",
        grounding=Grounding("The model minimises the cross entropy of the labels."),
        rubric=Rubric(
            criteria=(
                Criterion(id="loss", weight=3.0, required_elements=("cross entropy",)),
                Criterion(
                    id="target", weight=1.0, required_elements=("gradient clipping",)
                ),
            )
        ),
    )
    second = Task(
        question="How is it trained?",
        grounding=Grounding("It is trained with AdamW."),
        rubric=Rubric(
            criteria=(
                Criterion(id="optimiser", weight=2.0, required_elements=("AdamW",)),
                Criterion(id="style", weight=0.0),
            )
        ),
    )
    return {task.task_id: task for task in (first, second)}


@pytest.fixture
def task(tasks: dict[str, Task]) -> Task:
    return next(iter(tasks.values()))


@pytest.fixture
def row(task: Task) -> dict[str, Any]:
    """The first task as the columns of a row."""
    return {
        "question": task.question,
        "passage": task.grounding.reveal(),
        "rubric": task.rubric.reveal(),
    }


@pytest.fixture
def tasks_file(tasks: dict[str, Task], tmp_path: Path) -> str:
    write_tasks(tmp_path / "tasks.jsonl", tasks.values())
    return str(tmp_path / "tasks.jsonl")


@pytest.fixture
def judge_file(tmp_path: Path) -> str:
    (tmp_path / "judge.yaml").write_text("type: lexical\n", encoding="utf-8")
    return str(tmp_path / "judge.yaml")


@pytest.fixture(autouse=True)
def scorers(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[scoring.RubricScorer]]:
    """Close the scorers that a test made: in a process, the first to ask makes them."""
    made: list[scoring.RubricScorer] = []
    make = scoring.RubricScorer.__init__

    def recorded(self: scoring.RubricScorer, **settings: Any) -> None:
        make(self, **settings)
        made.append(self)

    monkeypatch.setattr(scoring.RubricScorer, "__init__", recorded)
    monkeypatch.setattr(scoring, "_shared", {})
    yield made
    for scorer in made:
        scorer.close()


@pytest.fixture
def share() -> Callable[[JudgeView], float]:
    """A script: the share that a response of the form `0.25` asks for."""
    return lambda view: float(view.response)


@pytest.fixture
def trainer(tmp_path: Path) -> Callable[..., Any]:
    """A real trainer of a tiny Llama, over eight questions."""
    datasets = pytest.importorskip("datasets")
    trl = pytest.importorskip("trl")
    import torch
    import transformers
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
    model = transformers.LlamaForCausalLM(config)

    def make(
        reward: Any, rows: list[dict[str, Any]], kind: Any = None, **settings: Any
    ) -> Any:
        given: dict[str, Any] = {
            "output_dir": str(tmp_path / "out"),
            "num_train_epochs": 2,
            "per_device_train_batch_size": 8,
            "num_generations": 4,
            "max_completion_length": 8,
            "generation_kwargs": {"min_new_tokens": 8},  # a blank answer is not judged
            "learning_rate": 1e-3,
            "logging_steps": 1,
            "report_to": [],
            "use_cpu": True,
            "bf16": False,
            "save_strategy": "no",
            "disable_tqdm": True,
        }
        arguments = trl.GRPOConfig(**given | settings)
        return (kind or trl.GRPOTrainer)(
            model=model,
            processing_class=tokenizer,
            reward_funcs=reward,
            args=arguments,
            train_dataset=datasets.Dataset.from_list(rows),
        )

    return make
