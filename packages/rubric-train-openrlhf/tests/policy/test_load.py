from __future__ import annotations

import errno
import json
import pickle
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from rubric_train_openrlhf.errors import DiskWriteError, PolicyLoadError
from rubric_train_openrlhf.policy import (
    ChatCodec,
    EncodedPrompt,
    Policy,
    SlotCodec,
    load_codec,
    load_policy,
    pack_responses,
    response_logprobs,
)

if TYPE_CHECKING:
    from rubric_core import PolicyView


def test_a_saved_policy_comes_back_the_same(
    tiny_policy: Policy, view: PolicyView, tmp_path: Path
) -> None:
    tiny_policy.save(tmp_path / "policy")
    again = load_policy(tmp_path / "policy")
    assert isinstance(again.codec, SlotCodec)
    prompt = tiny_policy.codec.encode_prompt(view)
    assert again.codec.encode_prompt(view) == prompt
    answer = tiny_policy.codec.encode_answer(view, "`convolve` is it. `mode`  too .")
    assert again.codec.decode(view, answer) == tiny_policy.codec.decode(view, answer)
    assert again.codec.eos_token_id == tiny_policy.codec.eos_token_id
    assert again.codec.pad_token_id == tiny_policy.codec.pad_token_id
    batch = pack_responses([prompt], [answer])
    assert torch.equal(
        response_logprobs(again.model, batch).logprobs_BT,
        response_logprobs(tiny_policy.model, batch).logprobs_BT,
    )
    assert [path.name for path in tmp_path.iterdir()] == ["policy"]


def test_saving_replaces_what_stood_there(tiny_policy: Policy, tmp_path: Path) -> None:
    (tmp_path / "policy").mkdir()
    (tmp_path / "policy" / "old").touch()
    tiny_policy.save(tmp_path / "policy")
    assert not (tmp_path / "policy" / "old").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["policy"]


def test_a_full_disk_leaves_the_old_folder(
    tiny_policy: Policy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny_policy.save(tmp_path / "policy")
    before = (tmp_path / "policy" / "model.safetensors").read_bytes()

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(tiny_policy.codec, "save", full)
    with pytest.raises(DiskWriteError, match="No space left") as caught:
        tiny_policy.save(tmp_path / "policy")
    assert caught.value.path == tmp_path / "policy"
    assert (tmp_path / "policy" / "model.safetensors").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["policy"]


def test_a_folder_without_slots_is_read_through_its_tokenizer(
    tiny_policy: Policy, view: PolicyView, tmp_path: Path
) -> None:
    tiny_policy.save(tmp_path / "policy")
    (tmp_path / "policy" / "slots.json").unlink()
    codec = load_policy(tmp_path / "policy").codec
    assert isinstance(codec, ChatCodec)
    prompt = codec.encode_prompt(view)
    assert codec.decode(view, prompt.token_ids) == f"Question: {view.question}\nAnswer:"
    answer = codec.encode_answer(view, " It convolves. ")
    assert answer[-1] == codec.eos_token_id
    assert codec.decode(view, answer) == "It convolves."


def test_a_chat_template_is_used_where_there_is_one(
    tiny_policy: Policy, view: PolicyView, tmp_path: Path
) -> None:
    tiny_policy.save(tmp_path / "policy")
    (tmp_path / "policy" / "slots.json").unlink()
    template = (
        "{% for m in messages %}[{{ m.role }}] {{ m.content }}{% endfor %}[reply]"
    )
    (tmp_path / "policy" / "chat_template.jinja").write_text(template)
    codec = load_policy(tmp_path / "policy").codec
    text = codec.decode(view, codec.encode_prompt(view).token_ids)
    assert text == f"[user] {view.question}[reply]"
    assert codec.decode(view, codec.encode_answer(view, "Yes.")) == "Yes."


def test_weights_can_be_read_in_half_precision(
    tiny_policy: Policy, tmp_path: Path
) -> None:
    tiny_policy.save(tmp_path / "policy")
    assert (
        load_policy(tmp_path / "policy", dtype=torch.bfloat16).model.dtype
        == torch.bfloat16
    )


def test_dropout_is_off_even_in_training_mode(
    tiny_policy: Policy, tmp_path: Path
) -> None:
    model = GPT2LMHeadModel(GPT2Config(vocab_size=387, n_embd=16, n_layer=1, n_head=2))
    Policy(model, tiny_policy.codec).save(tmp_path / "gpt2")
    loaded = load_policy(tmp_path / "gpt2").model
    assert not loaded.training
    batch = pack_responses([EncodedPrompt((5, 6))], [(7, 8)])
    expected = response_logprobs(loaded, batch).logprobs_BT
    assert torch.equal(response_logprobs(loaded.train(), batch).logprobs_BT, expected)


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(PolicyLoadError, match=r"no folder at .*absent") as caught:
        load_policy(tmp_path / "absent")
    assert isinstance(caught.value, FileNotFoundError)
    assert pickle.loads(pickle.dumps(caught.value)).path == tmp_path / "absent"


@pytest.mark.parametrize("name", ["x" * 300, "a\0b"], ids=["long", "null"])
def test_a_name_that_no_folder_can_have_is_named(name: str) -> None:
    with pytest.raises(PolicyLoadError, match="no folder at"):
        load_policy(name)


def test_a_folder_without_a_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        PolicyLoadError, match=r"no model configuration at .*config\.json"
    ):
        load_policy(tmp_path)


@pytest.mark.parametrize(
    "broken", ["config.json", "model.safetensors", "tokenizer.json"]
)
def test_a_broken_file_is_an_error_of_the_folder(
    tiny_policy: Policy, tmp_path: Path, broken: str
) -> None:
    tiny_policy.save(tmp_path / "policy")
    (tmp_path / "policy" / broken).write_bytes(b"{")
    with pytest.raises(PolicyLoadError, match="could not be read") as caught:
        load_policy(tmp_path / "policy")
    assert caught.value.path == tmp_path / "policy"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("config.json", "[]"),
        ("config.json", "{}"),
        ("config.json", '{"model_type": "llama", "hidden_size": "abc"}'),
        ("config.json", '{"model_type": ["llama"]}'),
        ("tokenizer.json", "{}"),
        ("tokenizer_config.json", "[]"),
        ("slots.json", "{"),
        ("slots.json", "[]"),
        ("slots.json", '{"slot_tokens": ["<F>"]}'),
    ],
)
def test_a_file_of_the_wrong_shape_is_an_error_of_the_folder(
    tiny_policy: Policy, tmp_path: Path, name: str, content: str
) -> None:
    tiny_policy.save(tmp_path / "policy")
    (tmp_path / "policy" / name).write_text(content)
    with pytest.raises(
        PolicyLoadError, match=r"could not be read|does not name"
    ) as caught:
        load_policy(tmp_path / "policy")
    assert caught.value.path == tmp_path / "policy"


def test_weights_that_lack_a_tensor_are_refused(
    tiny_policy: Policy, tmp_path: Path
) -> None:
    tiny_policy.save(tmp_path / "policy")
    shutil.copytree(tmp_path / "policy", tmp_path / "deeper")
    config = json.loads((tmp_path / "deeper" / "config.json").read_text())
    (tmp_path / "deeper" / "config.json").write_text(
        json.dumps({**config, "num_hidden_layers": 3})
    )
    with pytest.raises(PolicyLoadError, match="lack 9 tensors"):
        load_policy(tmp_path / "deeper")


def test_a_reason_of_several_lines_is_told_to_its_end(tmp_path: Path) -> None:
    with pytest.raises(
        PolicyLoadError, match=r"the tokenizer in .* could not be read: "
    ) as caught:
        load_codec(tmp_path)
    assert "\n" not in str(caught.value)
    assert not str(caught.value).endswith(":")
