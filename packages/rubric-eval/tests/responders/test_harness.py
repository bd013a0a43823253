"""Hugging Face folders through lm-eval: a tiny Llama with random weights and 96 positions."""

import itertools
import json
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("lm_eval")
pytest.importorskip("torch")
pytest.importorskip("rubric_train_openrlhf")

from structlog.testing import capture_logs

from rubric_core import (
    Ask,
    ConfigError,
    Decoding,
    Finish,
    PolicyView,
    Reason,
    Reply,
    ScoresChoices,
)
from rubric_eval.responders.drawing import SeededDraw
from rubric_eval.responders.opening import OpenModel, open_model
from rubric_eval.responders.spec import parse_model
from rubric_train_openrlhf.policy import TinyConfig, build_tiny_llama, build_tokenizer

pytestmark = pytest.mark.anyio

POSITIONS = 96
CHAT = (
    "{% for m in messages %}<bos>{{ m['content'] }}<eos>{% endfor %}"
    "{% if add_generation_prompt %}<bos>{% endif %}"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model")
    tokenizer = build_tokenizer([__doc__ or "", Path(__file__).read_text("utf-8")], 400)
    tokenizer.chat_template = CHAT
    config = TinyConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        layers=1,
        heads=2,
        kv_heads=2,
        max_positions=POSITIONS,
    )
    build_tiny_llama(config, seed=0).save_pretrained(path)
    tokenizer.save_pretrained(path)
    defaults = '{"do_sample": true, "top_k": 1, "repetition_penalty": 1.5}'
    (path / "generation_config.json").write_text(defaults, "utf-8")
    return path


async def _replies(
    model: OpenModel, asks: list[Ask], decoding: Decoding
) -> list[Reply]:
    replies = {
        index: reply async for index, reply in model.responder.respond(asks, decoding)
    }
    return [replies[index] for index in range(len(asks))]


def _asks(*questions: str, draws: int = 1) -> list[Ask]:
    views = [
        PolicyView(task_id=f"t{n}", question=text) for n, text in enumerate(questions)
    ]
    return [
        Ask(view=view, seed=10 * n + d)
        for n, view in enumerate(views)
        for d in range(draws)
    ]


async def test_draws_are_each_by_their_own_seed_and_by_nothing_of_the_folder(
    folder: Path,
) -> None:
    asks = _asks("Why?", "What does it do?", draws=4)
    warm = Decoding(temperature=1.0, max_tokens=12)
    async with await open_model(parse_model(f"m=hf:{folder}")) as model:
        together = await _replies(model, asks, warm)
        alone = [(await _replies(model, [ask], warm))[0] for ask in asks[3:5]]
        greedy = await _replies(model, asks, Decoding(max_tokens=12))
        narrow = Decoding(temperature=1.0, top_k=1, max_tokens=12)
        least = Decoding(temperature=1.0, top_p=1e-9, max_tokens=12)
        assert await _replies(model, asks, narrow) == greedy
        assert await _replies(model, asks, least) == greedy
    assert alone == together[3:5]
    assert len({reply.text for reply in together[:4]}) > 1  # the folder says top_k 1


async def test_max_tokens_is_cut_to_the_positions_that_are_left(folder: Path) -> None:
    asks = _asks("Why?", "why " * 12, "why " * 500)
    async with await open_model(parse_model(f"m=hf:{folder}")) as model:
        replies = await _replies(model, asks, Decoding(max_tokens=1024))
    for reply in replies[:2]:
        assert reply.tokens is not None
        assert reply.finish is Finish.COMPLETE or 1 < reply.tokens < POSITIONS
    assert (replies[2].text, replies[2].reason) == (None, Reason.BAD_REQUEST)
    assert f"the model {POSITIONS} positions" in replies[2].detail


@pytest.mark.parametrize("is_chat", [True, False])
async def test_the_likeliest_choice_is_by_the_log_probabilities_of_a_plain_pass(
    folder: Path, tmp_path: Path, *, is_chat: bool
) -> None:
    import torch
    import transformers

    path = folder if is_chat else tmp_path / "plain"
    if not is_chat:
        shutil.copytree(folder, path)
        (path / "chat_template.jinja").unlink()
    tokenizer = transformers.AutoTokenizer.from_pretrained(path)
    network = transformers.AutoModelForCausalLM.from_pretrained(path)
    choices = ("A", "B", "because of it")
    questions = ("Why?", "What does it do?", "why " * 500)
    asks = [one.model_copy(update={"choices": choices}) for one in _asks(*questions)]
    written = _asks("Who?")

    async with await open_model(parse_model(f"m=hf:{path}")) as model:
        assert isinstance(model.responder, ScoresChoices)
        replies = await _replies(model, [*written, *asks], Decoding(max_tokens=8))
        assert replies[:1] == await _replies(model, written, Decoding(max_tokens=8))

    for question, reply in zip(questions[:2], replies[1:], strict=False):
        text = (
            f"<bos>{question}<eos><bos>"
            if is_chat
            else f"Question: {question}\nAnswer:"
        )
        before = tokenizer.encode(text, add_special_tokens=not is_chat)
        expected: list[float] = []
        for choice in choices:
            behind = tokenizer.encode(
                choice if is_chat else f" {choice}", add_special_tokens=False
            )
            with torch.no_grad():
                logprobs_SV = (
                    network(torch.tensor([[*before, *behind]]))
                    .logits[0]
                    .log_softmax(-1)
                )
            places = range(len(before) - 1, len(before) + len(behind) - 1)
            expected.append(float(logprobs_SV[places, behind].sum()))
        assert reply.choice_logprobs == pytest.approx(expected, abs=1e-4)
        assert reply.text == choices[expected.index(max(expected))]
    assert (replies[3].text, replies[3].reason) == (None, Reason.BAD_REQUEST)


@pytest.fixture(scope="module", params=["rotary", "learned"])
def short_model(
    request: pytest.FixtureRequest,
    folder: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """A model whose positions are computed, or one that has a row of weights for each."""
    if request.param == "rotary":
        return folder
    transformers = pytest.importorskip("transformers")
    path = tmp_path_factory.mktemp("learned")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    config = transformers.GPT2Config(
        vocab_size=len(tokenizer),
        n_positions=POSITIONS,
        n_embd=32,
        n_layer=1,
        n_head=2,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    transformers.set_seed(0)
    transformers.GPT2LMHeadModel(config).save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


async def test_questions_of_all_lengths_are_answered_together_where_positions_are_few(
    short_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each has room for an answer of another length, and one without room waits for the others."""
    from transformers import GenerationMixin

    rows: list[int] = []
    generate = GenerationMixin.generate

    def counted(self: object, **given: object) -> object:
        rows.append(len(given["input_ids"]))  # pyright: ignore[reportArgumentType]
        return generate(self, **given)  # pyright: ignore[reportArgumentType]

    asks = _asks(*("why " * length for length in range(1, 33, 4)))
    warm = Decoding(temperature=1.5, max_tokens=1024)
    async with await open_model(parse_model(f"m=hf:{short_model}")) as model:
        alone = [(await _replies(model, [ask], warm))[0] for ask in asks]
        monkeypatch.setattr(GenerationMixin, "generate", counted)
        together = await _replies(model, asks, warm)

    assert rows == [len(asks)]
    assert together == alone
    assert (
        len({reply.tokens for reply in together if reply.finish is Finish.TRUNCATED})
        > 1
    )


async def test_a_stop_ends_an_answer_and_is_no_part_of_it(folder: Path) -> None:
    async with await open_model(parse_model(f"m=hf:{folder}")) as model:
        (whole,) = await _replies(
            model, _asks("Why?"), Decoding(temperature=2.0, max_tokens=40)
        )
        assert whole.text
        stop = next(
            one for one in whole.text[len(whole.text) // 2 :] if not one.isspace()
        )
        decoding = Decoding(temperature=2.0, max_tokens=40, stop=(stop,))
        (stopped,) = await _replies(model, _asks("Why?"), decoding)
    assert stopped.text == whole.text.partition(stop)[0].strip()
    assert stopped.finish is Finish.COMPLETE


async def test_a_stop_of_blanks_alone_ends_an_answer_too(folder: Path) -> None:
    """The blank is the last that the model writes: taking it off must not hide the stop."""
    decoding = Decoding(temperature=2.0, max_tokens=80, stop=("\n", " "))
    async with await open_model(parse_model(f"m=hf:{folder}")) as model:
        replies = await _replies(model, _asks("Why?", draws=8), decoding)
    stopped = [
        reply for reply in replies if reply.tokens is not None and reply.tokens < 80
    ]
    assert stopped
    assert {reply.finish for reply in stopped} == {Finish.COMPLETE}
    assert all(
        reply.text is not None and not set(reply.text) & {"\n", " "}
        for reply in replies
    )


async def test_the_identity_says_whether_questions_are_put_as_a_chat(
    folder: Path, tmp_path: Path
) -> None:
    plain = tmp_path / "plain"
    shutil.copytree(folder, plain)
    (plain / "chat_template.jinja").unlink(missing_ok=True)
    settings = json.loads((plain / "tokenizer_config.json").read_text("utf-8"))
    settings.pop("chat_template", None)
    (plain / "tokenizer_config.json").write_text(json.dumps(settings), "utf-8")
    inline = tmp_path / "inline"
    shutil.copytree(plain, inline)
    text = json.dumps({**settings, "chat_template": CHAT})
    (inline / "tokenizer_config.json").write_text(text, "utf-8")
    forms: list[str | None] = []
    for path in (folder, plain, inline):
        async with await open_model(parse_model(f"m=hf:{path}")) as model:
            forms.append(model.entry.prompt_form)
            # Loaded, the tokenizer is of the same mind.
            (reply,) = await _replies(model, _asks("Why?"), Decoding(max_tokens=2))
            assert reply.text is not None
    assert forms == ["chat", "plain", "chat"]


async def test_a_folder_that_is_no_model_is_refused_before_a_weight_loads(
    folder: Path, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="no model folder"):
        await open_model(parse_model(f"m=hf:{tmp_path / 'nowhere'}"))
    spec = parse_model(f"m=hf:{folder}")
    wrong = spec.model_copy(update={"options": {**spec.options, "dtyp": "float32"}})
    with pytest.raises(ConfigError, match="did you mean 'dtype'"):
        await open_model(wrong)


async def test_an_answer_is_given_while_longer_ones_of_its_batch_are_written(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asks = _asks("Why?", "why " * 30)  # few positions are left for the second
    draw, steps, going_on = SeededDraw.__call__, itertools.count(1), threading.Event()

    def held(self: SeededDraw, input_ids: Any, scores: Any) -> Any:
        is_last = input_ids.shape[1] >= POSITIONS + 2
        assert not is_last or going_on.wait(600), (
            f"nothing was given in {next(steps)} steps"
        )
        return draw(self, input_ids, scores)

    monkeypatch.setattr(SeededDraw, "__call__", held)
    given: list[int] = []
    async with await open_model(parse_model(f"m=hf:{folder}")) as model:
        async for index, _ in model.responder.respond(asks, Decoding(max_tokens=1024)):
            given.append(index)
            going_on.set()
    assert given == [1, 0]


async def test_a_template_s_end_ends_an_answer_whatever_the_tokenizer_says(
    misset_model: Path,
) -> None:
    with capture_logs() as logs:
        async with await open_model(parse_model(f"m=hf:{misset_model}")) as model:
            (reply,) = await _replies(model, _asks("Why?"), Decoding(max_tokens=8))
    assert (reply.text, reply.finish, reply.tokens) == ("", Finish.COMPLETE, 1)
    assert [one["chat_template"] for one in logs if one["log_level"] == "warning"] == [
        "<eos> (2)"
    ]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("broken", [float("nan"), float("inf")])
async def test_an_answer_without_finite_scores_is_no_answer_and_leaves_the_others(
    folder: Path, monkeypatch: pytest.MonkeyPatch, temperature: float, broken: float
) -> None:
    """The second of three rows is broken at its third token: "Who?" is the only such prompt."""
    import torch

    asks = _asks("Why?", "Who?", "What?")
    decoding = Decoding(temperature=temperature, max_tokens=6)
    async with await open_model(parse_model(f"m=hf:{folder}")) as model:
        whole = await _replies(model, asks, decoding)
        draw = SeededDraw.__call__
        steps: dict[int, int] = {}

        def breaking(self: SeededDraw, input_ids: Any, scores: Any) -> Any:
            step = steps[id(self)] = steps.get(id(self), 0) + 1
            if len(scores) == len(asks) and step == 3:
                scores = torch.where(
                    torch.arange(len(scores))[:, None] == 1, broken, scores
                )
            return draw(self, input_ids, scores)

        monkeypatch.setattr(SeededDraw, "__call__", breaking)
        replies = await _replies(model, asks, decoding)

    lost = [place for place, reply in enumerate(replies) if reply.text is None]
    assert len(lost) == 1
    (reply,) = (replies[place] for place in lost)
    assert reply.reason is Reason.SERVER_ERROR
    assert "the model's scores for token 3 of the answer are no finite" in reply.detail
    kept = [place for place in range(len(asks)) if place not in lost]
    assert [replies[place] for place in kept] == [whole[place] for place in kept]


async def test_a_model_of_weights_that_are_no_numbers_gives_no_answer(
    folder: Path, tmp_path: Path
) -> None:
    import torch
    from safetensors.torch import load_file, save_file

    path = tmp_path / "broken"
    shutil.copytree(folder, path)
    weights = load_file(path / "model.safetensors")
    broken = {name: tensor * torch.nan for name, tensor in weights.items()}
    save_file(broken, path / "model.safetensors", metadata={"format": "pt"})

    async with await open_model(parse_model(f"m=hf:{path}")) as model:
        replies = await _replies(model, _asks("Why?", "Who?"), Decoding(max_tokens=4))

    assert [reply.text for reply in replies] == [None, None]
    assert {reply.reason for reply in replies} == {Reason.SERVER_ERROR}
