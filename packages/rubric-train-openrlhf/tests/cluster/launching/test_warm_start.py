"""The warm start: what OpenRLHF is given, and what is found again."""

from __future__ import annotations

import json
import re
from collections import Counter
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import torch
from transformers import AutoTokenizer

from rubric_core import PolicyView, SftExample
from rubric_judge.ui.console.progress import Progress
from rubric_train_openrlhf.cluster.command.flags import command_words, warm_start_flags
from rubric_train_openrlhf.cluster.command.refusals import check_command
from rubric_train_openrlhf.cluster.launching.warm_start import (
    batches_done,
    sft_rows,
    warm_start,
)
from rubric_train_openrlhf.cluster.launching.warm_start_process import repaired
from rubric_train_openrlhf.cluster.rehearse.stand_ins import stand_in_model
from rubric_train_openrlhf.cluster.settings import WarmStartPaths
from rubric_train_openrlhf.errors import ResumeError, TrainConfigError
from rubric_train_openrlhf.policy import (
    ChatCodec,
    SftConfig,
    load_policy,
    response_logprobs,
)
from rubric_train_openrlhf.policy.rollouts import pack_responses

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rubric_train_openrlhf.config.train import TrainConfig

EXAMPLES = [
    SftExample(
        task_id=f"t{n}",
        question=f"Explain what fn_{n} does",
        answer=f"The function fn_{n} returns the sum of its arguments.",
    )
    for n in range(6)
]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "Llama-3-made"
    texts = [f"{example.question} {example.answer}" for example in EXAMPLES]
    stand_in_model(folder.name, folder, texts=texts, seed=0)
    return folder


@pytest.fixture
def tokenizer(model: Path) -> Any:
    return AutoTokenizer.from_pretrained(model)


def test_every_example_once_per_round(tokenizer: Any) -> None:
    config, codec = SftConfig(steps=3, batch_size=5), ChatCodec(tokenizer)
    rows = [json.loads(row) for row in sft_rows(EXAMPLES, config, codec=codec, seed=1)]
    assert len(rows) == 15
    assert set(Counter(row["output"] for row in rows[:12]).values()) == {2}
    assert rows == [
        json.loads(row) for row in sft_rows(EXAMPLES, config, codec=codec, seed=1)
    ]


def test_rows_tokenize_to_what_grpo_asks(tokenizer: Any) -> None:
    codec = ChatCodec(tokenizer)
    config = SftConfig(steps=1, batch_size=6)
    expected = {
        (
            *codec.encode_prompt(view).token_ids,
            *codec.encode_answer(view, example.answer),
        )
        for example in EXAMPLES
        for view in [PolicyView(task_id=example.task_id, question=example.question)]
    }
    rows = [
        json.loads(row)
        for row in sft_rows(EXAMPLES, config, codec=ChatCodec(tokenizer), seed=0)
    ]
    texts = [row["input"] + row["output"] for row in rows]
    assert {
        tuple(tokenizer.encode(text, add_special_tokens=False)) for text in texts
    } == expected
    # OpenRLHF adds " " and the end token to any text that does not end in it.
    assert all(text.endswith(tokenizer.eos_token) for text in texts)


@pytest.mark.openrlhf
def test_openrlhf_trains_on_the_tokens_that_the_template_gives_the_assistant(
    misset_model: Path,
) -> None:
    from datasets import Dataset
    from openrlhf.datasets import SFTDataset
    from openrlhf.utils import get_tokenizer

    tokenizer = repaired(get_tokenizer)(str(misset_model), None)
    own: Any = AutoTokenizer.from_pretrained(misset_model)
    assert (tokenizer.eos_token, own.eos_token) == ("<eos>", "<bos>")
    rows = sft_rows(
        EXAMPLES, SftConfig(steps=1, batch_size=6), codec=ChatCodec(own), seed=0
    )
    names = {"input_key": "input", "output_key": "output", "apply_chat_template": False}
    strategy = SimpleNamespace(args=SimpleNamespace(data=SimpleNamespace(**names)))
    data: Any = SFTDataset(
        Dataset.from_list([json.loads(row) for row in rows]),
        *(tokenizer, 256, strategy, "{}"),
        num_processors=1,
    )
    trained = {
        (tuple(ids[0].tolist()), tuple(mask[0].tolist())) for ids, _, mask in data
    }
    expected: set[tuple[tuple[int, ...], tuple[float, ...]]] = set()
    for one in EXAMPLES:
        asked = [{"role": "user", "content": one.question}]
        turns = [*asked, {"role": "assistant", "content": one.answer}]
        whole: list[int] = own.apply_chat_template(turns, return_dict=False)[
            :-1
        ]  # a line's end
        first = len(
            own.apply_chat_template(
                asked, return_dict=False, add_generation_prompt=True
            )
        )
        assert whole[-1] == 2
        # The loss of a position is that of the token behind it.
        mask = [
            float(first - 1 <= place < len(whole) - 1) for place in range(len(whole))
        ]
        expected.add((tuple(whole), tuple(mask)))
    assert trained == expected


def test_long_examples_are_left_out(tokenizer: Any) -> None:
    long = SftExample(task_id="long", question="Explain", answer="and so on " * 50)
    config = SftConfig(steps=1, batch_size=12, max_answer_tokens=40)
    rows = "".join(
        sft_rows([*EXAMPLES, long], config, codec=ChatCodec(tokenizer), seed=0)
    )
    assert "and so on" not in rows
    with pytest.raises(TrainConfigError, match="none of 1 reference answers"):
        sft_rows([long], config, codec=ChatCodec(tokenizer), seed=0)


def test_the_bar_of_openrlhf_is_read_from_the_end_of_its_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"starting\n" * 1000)
    assert batches_done(log) is None
    with log.open("ab") as file:
        file.write(b"\rTrain epoch:   0%|   | 0/1 [00:00<?, ?it/s]")
        file.write(
            b"\rTrain step of epoch 0:  10%|#  | 3/30 [00:01<00:09, 2.9it/s, loss=1/2]"
        )
        file.write(b"\rTrain step of epoch 0:  13%|#  | 4/30 [00:01<00:08, 3.0it/s")
    assert batches_done(log) == (4, 30)


@pytest.mark.openrlhf
@pytest.mark.parametrize(
    "lora", [None, {"rank": 8, "alpha": 16, "targets": ["q_proj", "v_proj"]}]
)
def test_openrlhf_takes_the_command(
    make_config: Callable[..., TrainConfig], model: Path, lora: dict[str, Any] | None
) -> None:
    sft = {"steps": 200, "batch_size": 64, "warmup_steps": 13, "learning_rate": 5e-6}
    warm = {"lora": lora, "micro_batch": 2}
    config = make_config(sft=sft, cluster={"warm_start": warm})
    words = command_words(warm_start_flags(config, model=model))
    args = check_command(words, program="openrlhf.cli.train_sft").args
    assert args.train.batch_size == 64
    assert args.train.micro_batch_size == 2
    assert args.data.input_template == "{}"
    assert args.data.output_key == "output"
    assert args.ds.lora.rank == (8 if lora else 0)
    assert args.ds.lora.target_modules == (
        ["q_proj", "v_proj"] if lora else "all-linear"
    )
    # As OpenRLHF rounds: ceil(steps · ratio).
    assert -(-200 * args.lr_warmup_ratio // 1) == 13


def test_a_batch_that_does_not_divide(
    make_config: Callable[..., TrainConfig], model: Path
) -> None:
    config = make_config(
        sft={"batch_size": 12, "learning_rate": 1e-5},
        cluster={"warm_start": {"micro_batch": 1}},
    )
    with pytest.raises(TrainConfigError, match=r"sft.batch_size=12 .* 1 × 8"):
        warm_start_flags(config, model=model)


def test_another_warm_start_is_refused(
    make_config: Callable[..., TrainConfig], model: Path, tmp_path: Path
) -> None:
    config = make_config(sft={"batch_size": 8, "learning_rate": 1e-5})
    WarmStartPaths(tmp_path).done.write_text('{"model": "another"}')
    with pytest.raises(ResumeError, match="delete it to do it again"):
        warm_start(config, examples=EXAMPLES, model=model, folder=tmp_path)


@pytest.mark.openrlhf
@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("lora", [None, {"rank": 8, "alpha": 32}], ids=["full", "lora"])
def test_answers_become_likelier(
    make_config: Callable[..., TrainConfig],
    model: Path,
    tmp_path: Path,
    lora: dict[str, Any] | None,
) -> None:
    config = make_config(
        sft={"steps": 20, "batch_size": 6, "learning_rate": 1e-2, "warmup_steps": 2},
        rollout={"prompts": 2, "group_size": 2, "max_new_tokens": 8},
        optim={"updates_per_rollout": 1, "micro_batch": 2},
        cluster={
            "device": "cpu",
            "gpus_per_node": 1,
            "deepspeed": {"zero_stage": 2, "forward_micro_batch": 2},
            "warm_start": {"lora": lora, "micro_batch": 3},
        },
    )
    notes: list[str] = []
    with (
        Progress.silent() as progress,
        progress.watched(lambda one: notes.append(one.note)),
        progress.phase("warm start"),
    ):
        trained = warm_start(config, examples=EXAMPLES, model=model, folder=tmp_path)
    assert any(re.match(r"batches: \d+ of \d+", note) for note in notes)
    assert _loss(trained) < _loss(model) - 1
    assert not (trained / "adapter_config.json").exists()
    before = (trained / "model.safetensors").stat().st_mtime_ns
    assert (
        warm_start(config, examples=EXAMPLES, model=model, folder=tmp_path) == trained
    )
    assert (trained / "model.safetensors").stat().st_mtime_ns == before


def _loss(folder: Path) -> float:
    """Nats per answer token."""
    policy = load_policy(folder)
    views = [PolicyView(task_id=one.task_id, question=one.question) for one in EXAMPLES]
    batch = pack_responses(
        [policy.codec.encode_prompt(view) for view in views],
        [
            policy.codec.encode_answer(view, one.answer)
            for view, one in zip(views, EXAMPLES, strict=True)
        ],
        device=policy.device,
    )
    with torch.no_grad():
        logprobs, _ = response_logprobs(policy.model, batch)
    return float(-logprobs.sum() / batch.n_response_tokens)
