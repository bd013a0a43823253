"""Open-book runs in one process: what may be looked up is in every prompt, and never cut."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from rubric_core import LeakError, Section, read_tasks, write_tasks
from rubric_train_openrlhf.errors import TrainConfigError
from rubric_train_openrlhf.local.start import run_grpo
from rubric_train_openrlhf.policy import SftConfig, load_codec
from rubric_train_openrlhf.policy.supervised import fitting
from rubric_train_openrlhf.step.tasks import TaskSet

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rubric_train_openrlhf.config.train import TrainConfig

FOUND = "For you the sum of it returns."


def opened(path: Path, out: Path, text: str = FOUND, **fields: Any) -> Path:
    context = (Section(doc_hash="d", heading="", text=text),)
    update = {"context": context, **fields}
    write_tasks(out, [one.model_copy(update=update) for one in read_tasks(path)])
    return out


@pytest.fixture
def make_opened(
    make_config: Callable[..., TrainConfig], tmp_path: Path
) -> Callable[..., TrainConfig]:
    """A short run of open-book tasks."""

    def make(text: str = FOUND, **changes: Any) -> TrainConfig:
        closed = make_config().data
        assert closed.validation is not None
        data = {
            "train": opened(closed.train, tmp_path / "train.jsonl", text),
            "validation": opened(
                closed.validation, tmp_path / "validation.jsonl", text
            ),
        }
        return make_config(data=data, **changes)

    return make


def test_a_run_samples_and_trains_behind_the_context(
    make_opened: Callable[..., TrainConfig], monkeypatch: pytest.MonkeyPatch
) -> None:
    from rubric_train_openrlhf.policy.codec import SlotCodec

    asked: set[str] = set()
    encode = SlotCodec.encode_prompt

    def watched(self: SlotCodec, view: Any) -> Any:
        prompt = encode(self, view)
        asked.add(self._text(prompt.token_ids))
        return prompt

    monkeypatch.setattr(SlotCodec, "encode_prompt", watched)
    config = make_opened(steps=2)
    run_grpo(config)

    assert len(asked) == 16
    assert all("Read what was found" in text and FOUND in text for text in asked)
    rows = [
        json.loads(line)
        for path in sorted((config.out / "rollouts").glob("*.jsonl"))
        for line in path.read_text().splitlines()
    ]
    assert {row["prompt"] for row in rows} <= {
        one.question for one in read_tasks(config.data.train)
    }
    recorded = json.loads((config.out / "environment.json").read_text())["tasks_sha256"]
    assert recorded["train"]["contexts"]


def test_a_prompt_that_leaves_no_room_is_refused_before_anything_is_trained(
    make_opened: Callable[..., TrainConfig],
) -> None:
    config = make_opened("It adds and adds. " * 40)
    message = (
        r"12 of 12 data\.train prompts are longer than the 104 tokens .* 128 positions"
    )
    with pytest.raises(TrainConfigError, match=message) as error:
        run_grpo(config)
    assert error.value.location == "data.train"
    assert "context.section_words" in str(error.value)
    assert not (config.out / "metrics.jsonl").exists()


def test_a_context_that_holds_the_reference_is_refused(
    make_config: Callable[..., TrainConfig], tmp_path: Path
) -> None:
    told = "The function adds both of them up and gives back all that it has"
    data = {
        "train": opened(
            make_config().data.train, tmp_path / "t.jsonl", told, reference_answer=told
        )
    }
    with pytest.raises(
        LeakError, match=r"12 contexts share .* its context 7 with reference answer"
    ):
        run_grpo(make_config(data=data))


def test_the_warm_start_learns_behind_the_context(
    make_opened: Callable[..., TrainConfig],
) -> None:
    config = make_opened()
    tasks = TaskSet(read_tasks(config.data.train))
    codec = load_codec(config.model.folder())
    examples = list(fitting(tasks.reference_answers(), SftConfig(), codec))

    assert [one.prompt for one in examples] == [
        codec.encode_prompt(one) for one in tasks.views
    ]
