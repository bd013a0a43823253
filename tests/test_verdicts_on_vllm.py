"""Verdicts by probability, and rubrics in parts, on a real vLLM server.

SmolLM2's probabilities are those that transformers computes from the same prompt. A tiny model of
random weights counts what calls with one prefix cost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import pytest
from prometheus_client.parser import text_string_to_metric_families

from rubric_core import (
    Criterion,
    Grounding,
    JudgeResult,
    JudgeView,
    Outcome,
    Rubric,
    Task,
    VerdictProbability,
)
from rubric_judge import JudgeConfig, JudgePool, LLMJudge
from rubric_judge.errors import JudgeSetupError
from rubric_judge.judges.llm.prompt import load_prompt
from rubric_judge.testing.vllm import VLLMServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

pytestmark = [pytest.mark.vllm, pytest.mark.slow, pytest.mark.timeout(1800)]

OPTIONS = (
    "--dtype",
    "float32",
    "--enforce-eager",
    "--max-model-len",
    "2048",
    "--kv-cache-memory-bytes",
    str(256 * 2**20),
)
RUBRIC = Rubric(
    criteria=(
        Criterion(id="atoms", weight=2, description="Says that atoms swing apart."),
        Criterion(id="cold", weight=1, description="Says that cold makes rods longer."),
        Criterion(id="heat", weight=1, description="Names heat as the cause."),
    )
)
TASK = Task(
    question="Why does the rod expand?",
    grounding=Grounding("Heat makes the atoms of the rod swing further apart."),
    rubric=RUBRIC,
)
ANSWERS = (
    "Heat makes its atoms swing further apart.",
    "It is painted blue.",
    "Cold makes it longer.",
)
BLOCK = 128
"""Tokens in a block of the cache, vLLM's default on a CPU: what is shared is whole blocks."""


@pytest.fixture(scope="module")
def one_word_model(
    smollm2_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """SmolLM2, which answers with a word: by itself it puts a quarter on yes and no together.

    Along the last hidden state of a question like those to come, the rows of the output layer for
    Yes and No are raised until they outweigh the rest.
    """
    torch: Any = pytest.importorskip("torch")
    transformers: Any = pytest.importorskip("transformers")
    tokenizer = transformers.AutoTokenizer.from_pretrained(smollm2_folder)
    model = transformers.AutoModelForCausalLM.from_pretrained(
        smollm2_folder, dtype=torch.float32
    )
    ids = tokenizer.apply_chat_template(
        _messages(TASK.judge_view(ANSWERS[0]), "verdict"),
        add_generation_prompt=True,
        return_dict=False,
    )
    with torch.no_grad():
        hidden = model.model(torch.tensor([ids])).last_hidden_state[0, -1]
        weights = model.lm_head.weight.clone()
        for word in ("Yes", "No"):
            (row,) = tokenizer.encode(word, add_special_tokens=False)
            weights[row] += 3.0 * hidden / hidden.dot(hidden)
    model.config.tie_word_embeddings = False
    model.lm_head.weight = torch.nn.Parameter(weights)
    folder = tmp_path_factory.mktemp("one_word")
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def smollm2(one_word_model: Path) -> Iterator[VLLMServer]:
    with VLLMServer(one_word_model, options=OPTIONS, start_within_s=900) as server:
        yield server


def _config(server: VLLMServer, **options: object) -> JudgeConfig:
    there = {"model": server.name, "transport": "direct", "api_base": server.url}
    return JudgeConfig.model_validate({**there, **options})


def _judged(config: JudgeConfig, views: Sequence[JudgeView]) -> list[JudgeResult]:
    async def run() -> list[JudgeResult]:
        async with LLMJudge(config) as judge:
            await judge.check()
            return await JudgePool(judge).judge_all(views)

    return anyio.run(run)


def _messages(view: JudgeView, layout: Any) -> list[dict[str, str]]:
    rendered = load_prompt(layout).render(view, passage_chars=50_000)
    return [
        {"role": "system", "content": rendered.system},
        {"role": "user", "content": rendered.user},
    ]


@pytest.fixture(scope="module")
def by_transformers(one_word_model: Path) -> Callable[[JudgeView], list[float]]:
    """Return a function from a view to the probabilities of all first tokens of its verdict."""
    torch: Any = pytest.importorskip("torch")
    transformers: Any = pytest.importorskip("transformers")
    tokenizer = transformers.AutoTokenizer.from_pretrained(one_word_model)
    model = transformers.AutoModelForCausalLM.from_pretrained(
        one_word_model, dtype=torch.float32
    )

    def probabilities(view: JudgeView) -> list[float]:
        ids = tokenizer.apply_chat_template(
            _messages(view, "verdict"), add_generation_prompt=True, return_dict=False
        )
        with torch.no_grad():
            logits = model(torch.tensor([ids])).logits[0, -1]
        return torch.softmax(logits.double(), dim=-1).tolist()

    return probabilities


@pytest.fixture(scope="module")
def spellings(smollm2_folder: Path) -> dict[str, list[int]]:
    """Every token that says yes or no, in any case and between any spaces."""
    transformers: Any = pytest.importorskip("transformers")
    tokenizer = transformers.AutoTokenizer.from_pretrained(smollm2_folder)
    texts = [tokenizer.decode([token]) for token in range(len(tokenizer))]
    return {
        word: [
            token for token, text in enumerate(texts) if text.strip().casefold() == word
        ]
        for word in ("yes", "no")
    }


def test_probabilities_are_those_of_the_models_own_logits(
    smollm2: VLLMServer,
    by_transformers: Callable[[JudgeView], list[float]],
    spellings: dict[str, list[int]],
) -> None:
    views = [TASK.judge_view(answer) for answer in ANSWERS]
    config = _config(smollm2, verdict="probability")

    first = _judged(config, views)
    again = _judged(config, views)

    readings: list[VerdictProbability] = []
    for view, result in zip(views, first, strict=True):
        for criterion in view.rubric:
            part = view.model_copy(update={"rubric": Rubric(criteria=(criterion,))})
            p = by_transformers(part)
            # What is beyond the list of 20 is not seen, and the last of the list may be a draw.
            seen = sorted(range(len(p)), key=lambda token: -p[token])[:19]
            all_yes, all_no = (
                sum(p[token] for token in spellings[word]) for word in ("yes", "no")
            )
            expected = VerdictProbability.of(
                yes=sum(p[token] for token in spellings["yes"] if token in seen),
                no=sum(p[token] for token in spellings["no"] if token in seen),
                unlisted=1 - sum(p[token] for token in seen),
            )
            assert result.outcome is Outcome.SCORED, result.detail
            reading = result.probabilities[criterion.id]
            readings.append(reading)
            assert dict(reading) == pytest.approx(dict(expected), abs=1e-4)
            truth = all_yes / (all_yes + all_no)
            assert reading.met == pytest.approx(truth, abs=1e-3)
            assert reading.low - 1e-4 <= truth <= reading.high + 1e-4
            assert result.scores[criterion.id] == criterion.weight * reading.met
    assert max(one.met for one in readings) - min(one.met for one in readings) > 0.02
    # Batches differ between runs, and with them the last bits of a float32.
    for one, other in zip(first, again, strict=True):
        assert other.outcome is one.outcome
        assert other.scores == pytest.approx(one.scores, abs=1e-5)


def test_a_verdict_writes_one_token(smollm2: VLLMServer) -> None:
    (result,) = _judged(
        _config(smollm2, verdict="probability"), [TASK.judge_view(ANSWERS[0])]
    )

    assert result.usage is not None
    assert result.usage.completion_tokens == len(RUBRIC)


def test_logits_are_refused_and_processed_log_probabilities_are_the_same(
    smollm2: VLLMServer, one_word_model: Path
) -> None:
    view = TASK.judge_view(ANSWERS[0])
    (raw,) = _judged(_config(smollm2, verdict="probability"), [view])
    for mode in ("raw_logits", "processed_logprobs"):
        options = (*OPTIONS, "--logprobs-mode", mode)
        with VLLMServer(one_word_model, options=options, start_within_s=900) as server:
            config = _config(server, verdict="probability")
            if mode == "raw_logits":
                with pytest.raises(JudgeSetupError, match="raw_logprobs"):
                    _judged(config, [view])
            else:
                (processed,) = _judged(config, [view])
                assert processed.scores == pytest.approx(raw.scores, abs=1e-4)


def _counts(server: VLLMServer) -> tuple[float, float]:
    """Tokens that were sent, and those that were computed."""
    samples = [
        sample
        for metric in text_string_to_metric_families(server.metrics())
        for sample in metric.samples
    ]
    sent = sum(s.value for s in samples if s.name == "vllm:prompt_tokens_total")
    computed = sum(
        s.value
        for s in samples
        if s.name == "vllm:prompt_tokens_by_source_total"
        and s.labels["source"] == "local_compute"
    )
    return sent, computed


def _common(first: Sequence[int], second: Sequence[int]) -> int:
    for place, (a, b) in enumerate(zip(first, second, strict=False)):
        if a != b:
            return place
    return min(len(first), len(second))


def test_parts_of_a_rubric_share_their_prefix(
    vllm: VLLMServer, chat_model: Path
) -> None:
    transformers: Any = pytest.importorskip("transformers")
    tokenizer = transformers.AutoTokenizer.from_pretrained(chat_model)
    criteria = tuple(
        Criterion(id=f"c{number}", weight=1, description=f"Says {number} of it.")
        for number in range(24)
    )
    task = Task(
        question="Which loss is minimised?",
        grounding=Grounding("The model minimises the cross entropy. " * 40),
        rubric=Rubric(criteria=criteria),
    )
    view = task.judge_view("The cross entropy of the labels, on average. " * 20)
    prompts = [
        tokenizer.encode(
            tokenizer.apply_chat_template(
                _messages(
                    view.model_copy(
                        update={"rubric": Rubric(criteria=criteria[start : start + 8])}
                    ),
                    "by_part",
                ),
                tokenize=False,
                add_generation_prompt=True,
            ),
            add_special_tokens=False,
        )
        for start in (0, 8, 16)
    ]
    expected = len(prompts[0]) + sum(
        len(prompt) - _common(prompt, prompts[0]) // BLOCK * BLOCK
        for prompt in prompts[1:]
    )
    config = _config(vllm, granularity=8, max_tokens=16, temperature=0.0)

    async def judge() -> JudgeResult:
        async with LLMJudge(config) as judge:
            return await judge.judge(view)

    vllm.forget_prefixes()
    before = _counts(vllm)
    result = anyio.run(judge)
    sent, computed = (
        now - then for now, then in zip(_counts(vllm), before, strict=True)
    )

    assert result.attempts == 3
    assert sent == sum(map(len, prompts))
    assert computed == expected
    assert computed < 0.7 * sent
