"""Every task, run by lm-eval: right answers score 1.0 and wrong ones 0.0, cold and warm."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Any

import pytest

from rubric_core import Decoding
from rubric_eval.lm_tasks import TASKS_PATH
from rubric_eval.transfer.building import build
from rubric_eval.transfer.pass_through import cache_key
from rubric_eval.transfer.suites import SUITES, Benchmark

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

pytest.importorskip("lm_eval")

CHOOSING = SUITES["likelihood"]
BENCHMARKS = [*SUITES["paper"], *SUITES["stock"]]
RIGHT: dict[str, list[Callable[[str], str]]] = {
    "rubric_gsm8k": [
        "So the answer is $\\boxed{{{}}}$.".format,
        "I count.\n#### {}".format,
        "The answer is {} dollars.".format,
    ],
    "rubric_math": [
        "Hence $x$ is \\[\\boxed{{{}}}\\]".format,
        "The final answer is ${}$. I hope it is correct.".format,
    ],
    "rubric_gpqa_main": ["\\boxed{{\\text{{({})}}}}".format, "**Answer: {}**".format],
    "rubric_gpqa_diamond": ["The correct answer is ({}).".format],
    "gsm8k_cot_llama": ["The final answer is {}".format],
    "hendrycks_math": ["It is ${}$.".format],
    "gpqa_main_cot_zeroshot": ["The answer is ({}).".format],
    "gpqa_diamond_cot_zeroshot": ["The answer is ({}).".format],
}
WRONG = [
    "\\boxed{-77}",
    "The answer is ({}).",
    "",
    "\\boxed{",
    "The final answer is $-77$.",
]


def _targets(benchmark: Benchmark) -> dict[str, str]:
    """Prompt → target, from a build of its own."""
    (built,) = build([benchmark], data="small", decoding=Decoding())
    return {
        prompt: _target(document)
        for prompt, document in zip(
            built.prompts, built.task.dataset["test"], strict=True
        )
    }


def _target(document: Mapping[str, Any]) -> str:
    if "target" in document:
        return document["target"]
    if "solution" in document:
        return document["solution"].removeprefix("$\\boxed{").removesuffix("}$")
    return document["answer"].removeprefix("#### ").strip("()")


def _oracle(say: Callable[[str], str]) -> Any:
    """A model of lm-eval's that says something for each prompt."""
    from lm_eval.api.model import LM

    class Oracle(LM):
        asked = 0

        def generate_until(self, requests: list[Any]) -> list[str]:
            for request in requests:
                Oracle.asked += 1
                answer = say(request.args[0])
                self.cache_hook.add_partial("generate_until", request.args, answer)
            return [say(request.args[0]) for request in requests]

        def loglikelihood(self, requests: list[Any]) -> list[tuple[float, bool]]:
            pairs = [request.args for request in requests]
            return [
                (-1.0 - (say(prompt) != letter.strip()), False)
                for prompt, letter in pairs
            ]

        def loglikelihood_rolling(self, requests: list[Any]) -> list[float]:
            raise NotImplementedError

    return Oracle()


def _accuracy(
    benchmark: Benchmark,
    model: Any,
    cache: Path | None = None,
) -> dict[str, Any]:
    import lm_eval
    from lm_eval.tasks import TaskManager

    if benchmark.stock_yaml is None:
        manager = TaskManager(
            include_defaults=False,
            include_path=str(TASKS_PATH),
            metadata={"data": "small"},
        )
        tasks = [benchmark.task]
    else:  # built anew each time, as a run would
        manager = TaskManager(include_defaults=False)
        tasks = [build([benchmark], data="small", decoding=Decoding())[0].task]
    results = lm_eval.simple_evaluate(
        model=model,
        tasks=tasks,
        task_manager=manager,
        use_cache=None if cache is None else str(cache),
        bootstrap_iters=0,
    )
    return results["results"][benchmark.task]


@pytest.fixture(autouse=True)
def cold_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that an earlier test, or run, has mapped is there."""
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "datasets")


@pytest.mark.parametrize("benchmark", BENCHMARKS, ids=lambda one: one.task)
def test_right_answers_score_one_on_a_cold_and_a_warm_cache(
    benchmark: Benchmark, tmp_path: Path
) -> None:
    targets = _targets(benchmark)
    for number, form in enumerate(RIGHT[benchmark.task]):
        oracle = _oracle(lambda prompt, form=form: form(targets[prompt]))
        cache = tmp_path / f"cache_{number}"

        cold = _accuracy(benchmark, oracle, cache)
        asked = oracle.asked
        warm = _accuracy(benchmark, oracle, cache)

        assert cold[f"exact_match,{benchmark.filter}"] == 1.0
        assert warm[f"exact_match,{benchmark.filter}"] == 1.0
        assert asked == len(targets)
        assert oracle.asked == asked  # the second run was warm


@pytest.mark.parametrize("benchmark", BENCHMARKS, ids=lambda one: one.task)
def test_wrong_answers_score_nothing(benchmark: Benchmark) -> None:
    targets = _targets(benchmark)
    other = {"A": "B", "B": "C", "C": "D", "D": "A"}
    forms = dict(zip(targets, itertools.cycle(WRONG), strict=False))
    oracle = _oracle(
        lambda said: forms[said].replace("{}", other.get(targets[said], "-77"))
    )

    assert _accuracy(benchmark, oracle)[f"exact_match,{benchmark.filter}"] == 0.0


@pytest.mark.parametrize("benchmark", CHOOSING, ids=lambda one: one.task)
def test_the_likeliest_letter_is_the_answer(benchmark: Benchmark) -> None:
    """By lm-eval's own `multiple_choice`, of the four letters behind one prompt."""
    targets = _targets(benchmark)
    (built,) = build([benchmark], data="small", decoding=Decoding())

    def accuracy(say: Callable[[str], str]) -> float:
        return _accuracy(benchmark, _oracle(say))["acc,none"]

    assert built.choices == ("A", "B", "C", "D")
    assert len(built.task.instances) == 4 * len(built.prompts)
    assert accuracy(targets.__getitem__) == 1.0
    assert accuracy(lambda prompt: "BCDA"["ABCD".index(targets[prompt])]) == 0.0
    share = sum(target == "C" for target in targets.values()) / len(targets)
    assert accuracy(lambda _: "C") == share


@pytest.mark.parametrize("benchmark", SUITES["paper"], ids=lambda one: one.task)
def test_what_states_no_answer_is_counted(benchmark: Benchmark) -> None:
    metrics = _accuracy(benchmark, _oracle(lambda _: "I do not know what to say"))

    assert metrics["no_answer,none"] == 1.0
    assert (
        "truncated,none" not in metrics
    )  # this model does not say how an answer ended


@pytest.mark.parametrize(
    "benchmark", [*BENCHMARKS, *CHOOSING], ids=lambda one: one.task
)
def test_prompts_are_the_same_whenever_they_are_built(benchmark: Benchmark) -> None:
    first, second = (
        build([benchmark], data="small", decoding=Decoding(), limit=limit)[0]
        for limit in (None, 3)
    )

    assert first.prompts[:3] == second.prompts
    assert first.ids[:3] == second.ids
    assert first.template == second.template
    assert first.sha256 != second.sha256


@pytest.mark.parametrize(
    "benchmark", [*BENCHMARKS, *CHOOSING], ids=lambda one: one.task
)
def test_a_prompt_is_the_one_user_turn_that_lm_eval_writes(
    benchmark: Benchmark,
) -> None:
    """As it does by `--apply_chat_template --fewshot_as_multiturn false`, and, without examples,
    by its default."""
    (built,) = build([benchmark], data="small", decoding=Decoding(), limit=3)

    def rendered(*, fewshot_as_multiturn: bool) -> list[list[dict[str, str]]]:
        built.task.build_all_requests(
            limit=3,
            rank=0,
            world_size=1,
            apply_chat_template=True,
            fewshot_as_multiturn=fewshot_as_multiturn,
            chat_template=lambda messages, **_: json.dumps(messages),
        )
        return [json.loads(one.args[0]) for one in built.task.instances if one.idx == 0]

    turns = [[{"role": "user", "content": prompt}] for prompt in built.prompts]
    assert rendered(fewshot_as_multiturn=False) == turns
    has_examples = benchmark.task == "gsm8k_cot_llama"
    assert (rendered(fewshot_as_multiturn=True) == turns) is not has_examples


def test_one_cache_for_two_models_gives_the_second_the_answers_of_the_first(
    tmp_path: Path,
) -> None:
    """lm-eval's trap, and what our path of the cache makes of it."""
    (benchmark, *_) = SUITES["paper"]
    targets = _targets(benchmark)
    right = _oracle(lambda prompt: f"\\boxed{{{targets[prompt]}}}")
    wrong = _oracle(lambda _: "\\boxed{-77}")

    def accuracy(model: Any, cache: Path) -> float:
        return _accuracy(benchmark, model, cache)["exact_match,none"]

    keyed = {
        name: tmp_path / f"keyed.{cache_key('hf', [f'pretrained={name}'])}"
        for name in ("a", "b")
    }
    assert accuracy(right, keyed["a"]) == 1.0
    assert accuracy(wrong, keyed["b"]) == 0.0
    assert accuracy(wrong, keyed["a"]) == 1.0  # one path for both would do this


def test_no_answer_is_limited_to_the_tokens_of_lm_eval() -> None:
    for built in build(BENCHMARKS, data="small", decoding=Decoding()):
        assert built.decoding.max_tokens >= 1024
