"""What ends an answer, where a model's tokenizer, chat template and settings disagree."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest
import torch
from structlog.testing import capture_logs
from transformers import AutoTokenizer

from rubric_core import PolicyView
from rubric_core.data.end_tokens import end_tokens, settings_end
from rubric_train_openrlhf.errors import PolicyLoadError
from rubric_train_openrlhf.policy import load, load_codec, load_policy, sample_groups

if TYPE_CHECKING:
    from pathlib import Path

VIEW = PolicyView(task_id="t", question="What is it?")


def _tokenizer(folder: Path, **changes: object) -> Any:
    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    for name, value in changes.items():
        setattr(tokenizer, name, value)
    return tokenizer


def test_each_part_of_a_model_may_name_one(misset_model: Path) -> None:
    found = end_tokens(_tokenizer(misset_model), settings_end(misset_model))
    assert found == (1, 2, (1,))
    assert found.ids == (2, 1)
    assert found.disagree


@pytest.mark.parametrize(
    ("template", "ids"),
    [
        (None, (1,)),
        ("{% for m in messages %}{{ m.content }}\n{% endfor %}", (1,)),
        ("{% for m in messages %}{{ m.role }}{% endfor %}<eos>", (1,)),
        ("{{ raise_exception('no turns of an assistant') }}", (1,)),
        ("{% for m in messages %}{{ m.content }}<pad>{% endfor %}", (0, 1)),
    ],
)
def test_only_a_special_token_right_behind_an_answer_is_the_template_s(
    misset_model: Path, template: str | None, ids: tuple[int, ...]
) -> None:
    assert end_tokens(_tokenizer(misset_model, chat_template=template)).ids == ids


@pytest.mark.parametrize(
    ("said", "ids"),
    [("[7, 1]", (2, 1, 7)), ("7", (2, 1, 7)), ("null", (2, 1)), (None, (2, 1, 5))],
)
def test_settings_may_name_several_or_leave_it_to_the_model(
    misset_model: Path, tmp_path: Path, said: str | None, ids: tuple[int, ...]
) -> None:
    folder = shutil.copytree(misset_model, tmp_path / "model")
    (folder / "generation_config.json").unlink()
    (folder / "config.json").write_text('{"eos_token_id": 5}')
    if said is not None:
        (folder / "generation_config.json").write_text(f'{{"eos_token_id": {said}}}')
    assert end_tokens(_tokenizer(folder), settings_end(folder)).ids == ids


def test_a_model_that_names_none_is_refused(misset_model: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(misset_model, tmp_path / "model")
    _tokenizer(folder, chat_template=None, eos_token=None).save_pretrained(folder)
    (folder / "chat_template.jinja").unlink()
    (folder / "generation_config.json").write_text("{}")
    with pytest.raises(PolicyLoadError, match="no end-of-sequence token"):
        load_codec(folder)


def test_a_mismatch_is_said_once(misset_model: Path, chat_model: Path) -> None:
    load._say_differ.cache_clear()
    with capture_logs() as logs:
        load_policy(chat_model)
        for _ in range(2):
            load_policy(misset_model)
            load_codec(misset_model)
    (said,) = logs
    assert said["event"] == "policy.end_tokens.differ"
    assert said["log_level"] == "warning"
    assert said["tokenizer"] == said["settings"] == "<bos> (1)"
    assert said["chat_template"] == "<eos> (2)"


def test_what_is_trained_on_is_what_the_template_writes(misset_model: Path) -> None:
    codec = load_codec(misset_model)
    turns = [
        {"role": "user", "content": VIEW.question},
        {"role": "assistant", "content": "A cut."},
    ]
    whole: list[int] = _tokenizer(misset_model).apply_chat_template(
        turns, return_dict=False
    )
    ours = (*codec.encode_prompt(VIEW).token_ids, *codec.encode_answer(VIEW, "A cut."))
    assert ours == tuple(whole[: len(ours)])
    assert ours[-1] == codec.eos_token_id == 2


def test_a_sampled_response_ends_at_any_of_them(misset_model: Path) -> None:
    policy = load_policy(misset_model)
    for ends, tokens in ((policy.codec.end_token_ids, 1), (1, 8)):
        drawn = sample_groups(
            policy.model,
            [policy.codec.encode_prompt(VIEW)],
            group_size=2,
            max_new_tokens=8,
            generator=torch.Generator().manual_seed(0),
            eos_token_id=ends,
            pad_token_id=policy.codec.pad_token_id,
        )
        assert drawn.lengths_B.tolist() == [tokens, tokens]
        assert drawn.ended_B.tolist() == [tokens == 1] * 2


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_weights_are_saved_in_the_format_that_they_came_in(
    chat_model: Path, tmp_path: Path, dtype: torch.dtype
) -> None:
    load_policy(chat_model, dtype=dtype).model.save_pretrained(tmp_path / "half")
    for path in chat_model.glob("*token*"):
        shutil.copy(path, tmp_path / "half")
    policy = load_policy(tmp_path / "half")  # in float32
    assert policy.model.dtype == torch.float32
    with torch.no_grad():
        for weights in policy.model.parameters():
            weights.add_(1e-5)
    policy.save(tmp_path / "saved")

    again = load_policy(tmp_path / "saved", dtype="auto").model
    assert again.dtype == dtype
    assert json.loads((tmp_path / "saved" / "config.json").read_text())["dtype"] in str(
        dtype
    )
    policy.round_to_saved()
    for name, weights in policy.model.state_dict().items():
        assert torch.equal(again.state_dict()[name].float(), weights), name
    sizes = [
        (tmp_path / name / "model.safetensors").stat().st_size
        for name in ("half", "saved")
    ]
    assert sizes[0] == pytest.approx(sizes[1], rel=0.01)


def test_an_empty_text_has_no_token_of_an_answer_s_end(misset_model: Path) -> None:
    codec = load_codec(misset_model)
    token_ids = codec.encode_text("")
    assert not {*codec.end_token_ids} & {*token_ids}
    assert codec.encode_text("It is.")[: len(token_ids)] == token_ids
