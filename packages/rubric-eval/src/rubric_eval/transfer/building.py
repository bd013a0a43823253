"""Benchmarks as lm-eval's tasks, with their prompts, and answers scored by them."""

import logging
import re
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass
from importlib import import_module
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, cast

from rubric_core import (
    Criterion,
    Decoding,
    Grounding,
    Rubric,
    RubricError,
    Task,
    write_tasks,
)
from rubric_core.errors import needing_extra
from rubric_core.files import text_sha256
from rubric_core.strict_json import canonical_json
from rubric_eval.errors import BenchmarkDataError
from rubric_eval.lm_tasks import TASKS_PATH
from rubric_eval.lm_tasks.answers.statements import EXTRACTION_VERSION
from rubric_eval.lm_tasks.scoring import Response, stated
from rubric_eval.lm_tasks.sources import Item, load_items
from rubric_eval.records.files import AnswerRow, ItemRow, items_sha256
from rubric_eval.transfer.suites import SUITES, Benchmark, SuiteName, stock_config

_SPECIAL_TOKEN = re.compile(r"</?\|?.*\|?>")


@dataclass(frozen=True)
class Built:
    """A benchmark with its prompts, ready to be asked and scored."""

    benchmark: Benchmark
    task: Any
    """lm-eval's task."""

    items: tuple[Item, ...]
    prompts: tuple[str, ...]
    """Prompt of each item, the same for every model; a model's chat template goes around it."""

    decoding: Decoding
    source: str
    template: str
    """Hash of the rules that turn items into prompts and score responses."""

    limit: int | None
    choices: tuple[str, ...] = ()
    """Texts, the likeliest of which is a model's answer; empty if the model writes its answer."""

    @property
    def ids(self) -> tuple[str, ...]:
        """Ids of the items."""
        return tuple(item.item_id for item in self.items)

    @property
    def sha256(self) -> str:
        """Hash of ids and prompts, in order."""
        return items_sha256(self.ids, self.prompts)


def build(
    benchmarks: Sequence[Benchmark],
    *,
    data: str | Path | None,
    decoding: Decoding,
    max_tokens: int | None = None,
    limit: int | None = None,
) -> list[Built]:
    """Build the tasks and every prompt.

    Args:
        benchmarks: benchmarks to build.
        data: folder of local copies, "small", or None for the Hub.
        decoding: settings of decoding, except token limit and stops, which each benchmark has.
        max_tokens: tokens of an answer, in place of each benchmark's own.
        limit: number of items of each benchmark, at least 1, for a trial.

    Raises:
        BenchmarkDataError: data is missing or not well formed.
        MissingExtraError: lm-eval is not installed.
    """
    with quiet():
        return [
            _build(benchmark, data, decoding, max_tokens, limit)
            for benchmark in benchmarks
        ]


def harness(module: str) -> Any:
    """Import a module of lm-eval.

    Raises:
        MissingExtraError: lm-eval is not installed.
    """
    with needing_extra("rubric-eval", "lm-eval", by="running benchmarks"):
        return import_module(module)


@contextmanager
def quiet() -> Generator[None]:
    """Keep lm-eval's messages and progress bars off the terminal; they are about its own tasks."""
    log = logging.getLogger("lm_eval")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with redirect_stderr(StringIO()):
            yield
    finally:
        log.setLevel(level)


def _build(
    benchmark: Benchmark,
    data: str | Path | None,
    decoding: Decoding,
    max_tokens: int | None,
    limit: int | None,
) -> Built:
    tasks = harness("lm_eval.tasks")
    loaded = load_items(benchmark.data, data)
    metadata = {} if data is None else {"data": str(data)}
    stock = stock_config(benchmark, loaded.items, folder=Path(tasks.__file__).parent)
    task = _load(benchmark.task, metadata, stock)
    task.set_fewshot_seed(seed=0)
    task.build_all_requests(limit=limit, rank=0, world_size=1)
    # A question with choices has an instance for each choice, of which the first is used.
    all_instances = cast("list[Any]", task.instances)
    instances = [instance for instance in all_instances if instance.idx == 0]
    choices: tuple[str, ...] = ()
    if task.OUTPUT_TYPE == "multiple_choice":
        choices = tuple(task.doc_to_choice(instances[0].doc))
    own_decoding = {
        "max_tokens": max_tokens or benchmark.max_tokens,
        "stop": _stops(task),
    }
    by_id = {item.item_id: item for item in loaded.items}
    return Built(
        benchmark=benchmark,
        task=task,
        items=tuple(by_id[instance.doc["item_id"]] for instance in instances),
        prompts=tuple(instance.args[0] for instance in instances),
        decoding=decoding.model_copy(update=own_decoding),
        source=loaded.source,
        template=_template(benchmark, task),
        limit=limit,
        choices=choices,
    )


def _stops(task: Any) -> tuple[str, ...]:
    """Return the task's stops except special tokens, which no answer's text holds."""
    options = cast("dict[str, Any]", task.config.generation_kwargs or {})
    until: Any = options.get("until") or []
    stops = [until] if isinstance(until, str) else cast("list[str]", until)
    return tuple(stop for stop in stops if not _SPECIAL_TOKEN.fullmatch(stop))


def _template(benchmark: Benchmark, task: Any) -> str:
    config = task.config
    shots = getattr(config, "num_fewshot", None)
    text = config.doc_to_text
    if not isinstance(text, str):
        text = repr(benchmark.task)
    metadata = cast("dict[str, Any]", config.metadata or {})
    version = str(metadata.get("version"))
    parts = [benchmark.task, text, shots, version, benchmark.filter, EXTRACTION_VERSION]
    return text_sha256(canonical_json(parts))


_HELDOUT = "rubric_heldout"


class Validated(NamedTuple):
    """Result of building one task."""

    task: str
    items: int | None
    """Number of items; None if the task could not be built."""

    source: str
    """Source of the items, or an error message."""


def validate(
    *,
    data: str | Path | None = None,
    suites: tuple[SuiteName, ...] = tuple(SuiteName),
    tasks: Path | None = None,
    judge: Path | None = None,
) -> list[Validated]:
    """Build every task, with all prompts, and report which cannot be built.

    Args:
        data: folder of local copies, "small", or None for the Hub.
        suites: suites to build; `rubric_heldout` is in none of them, and is always built.
        tasks: held-out questions of `rubric_heldout`; None for a stand-in question.
        judge: file of its judge, which is tried; None for the judge of claims.

    Raises:
        MissingExtraError: lm-eval is not installed, so that nothing can be built.
    """
    for module in ("lm_eval", "math_verify"):
        harness(module)
    results = [
        _validate(benchmark, data) for suite in suites for benchmark in SUITES[suite]
    ]
    results.append(_validate_heldout(tasks, judge))
    return results


def _validate(benchmark: Benchmark, data: str | Path | None) -> Validated:
    try:
        (built,) = build([benchmark], data=data, decoding=Decoding())
    except BenchmarkDataError as error:
        return Validated(benchmark.task, None, str(error))
    return Validated(benchmark.task, len(built.ids), built.source)


def _validate_heldout(tasks: Path | None, judge: Path | None) -> Validated:
    """Build the held-out task, with stand-ins for questions or a judge that are not given."""
    with TemporaryDirectory() as folder:
        questions = tasks or Path(folder, "tasks.jsonl")
        reader = judge or Path(folder, "judge.yaml")
        if tasks is None:
            paris = Criterion(id="named", weight=1.0, required_elements=("Paris",))
            question = Task(
                question="What is the capital of France?",
                grounding=Grounding("The capital of France is Paris."),
                rubric=Rubric(criteria=(paris,)),
            )
            write_tasks(questions, [question])
        if judge is None:
            reader.write_text("type: claims\n", encoding="utf-8")
        try:
            task = _load(_HELDOUT, {"questions": str(questions), "judge": str(reader)})
            with quiet():
                task.build_all_requests(rank=0, world_size=1)
        except (RubricError, OSError) as error:
            return Validated(_HELDOUT, None, str(error))
    questions_source = tasks or "a question that stands for any"
    judge_source = judge or "the judge of claims"
    source = f"{questions_source}, {judge_source}"
    return Validated(_HELDOUT, len(task.instances), source)


def _load(
    name: str, metadata: dict[str, str], config: dict[str, Any] | None = None
) -> Any:
    """Load one of our tasks, or the task of a configuration, into lm-eval."""
    manager = harness("lm_eval.tasks").TaskManager(
        include_defaults=False, include_path=[str(TASKS_PATH)], metadata=metadata
    )
    with quiet():
        return manager.load([config or name])["tasks"][name]


def scored_samples(
    built: Built, answers: Mapping[str, AnswerRow]
) -> list[dict[str, Any]]:
    """Let lm-eval score the answers to one benchmark.

    Args:
        built: the benchmark.
        answers: answers by prompt.

    Returns:
        lm-eval's samples of the filter that counts, in the order of the items.
    """
    with quiet():
        results = harness("lm_eval").evaluate(
            lm=_model(answers),
            task_dict={"tasks": {built.benchmark.task: built.task}, "groups": {}},
            limit=built.limit,
            bootstrap_iters=0,
        )
    samples = results["samples"][built.benchmark.task]
    filtered = [
        sample for sample in samples if sample["filter"] == built.benchmark.filter
    ]
    return sorted(filtered, key=lambda sample: sample["doc_id"])


def _model(answers: Mapping[str, AnswerRow]) -> Any:
    from lm_eval.api.model import LM

    class Recorded(LM):
        def generate_until(self, requests: list[Any]) -> list[str]:
            return [Response(answers[request.args[0]]) for request in requests]

        def loglikelihood(self, requests: list[Any]) -> list[tuple[float, bool]]:
            results: list[tuple[float, bool]] = []
            for request in requests:
                logprobs = answers[request.args[0]].choice_logprobs
                # The value does not matter for a missing answer, whose score is not used.
                logprob = 0.0
                if logprobs:
                    choice: int = request.idx
                    logprob = logprobs[choice]
                results.append((logprob, False))
            return results

        # lm-eval's class requires this method; no benchmark here calls it.
        def loglikelihood_rolling(self, requests: list[Any]) -> list[float]:
            raise NotImplementedError

    return Recorded()


_NOTHING_FOUND = "[invalid]"
"""Output of lm-eval's filters when they find no answer."""
_NO_FILTER = "none"
"""Name of the filter that leaves the response to the task's own rule."""


def scored_items(built: Built, answers: Mapping[str, AnswerRow]) -> list[ItemRow]:
    """Score the answers to a benchmark.

    Args:
        built: the benchmark.
        answers: answers by item.

    Returns:
        A row for each item, in their order; an item without an answer is neither right nor wrong.
    """
    by_prompt = {
        prompt: answers[item_id]
        for item_id, prompt in zip(built.ids, built.prompts, strict=True)
    }
    samples = scored_samples(built, by_prompt)
    triples = zip(built.items, built.prompts, samples, strict=True)
    return [
        _row(built.benchmark, answers[item.item_id], sample, item=item, prompt=prompt)
        for item, prompt, sample in triples
    ]


def _row(
    benchmark: Benchmark,
    answer: AnswerRow,
    sample: Mapping[str, Any],
    *,
    item: Item,
    prompt: str,
) -> ItemRow:
    response = Response(answer)
    correct = None
    is_answered = False
    stated_answer = None
    if answer.text is not None:
        metric = "acc" if "acc" in sample else "exact_match"
        correct = bool(sample[metric])
        is_answered = _is_answered(answer, sample)
        stated_answer = _stated(benchmark, answer, sample, item)
    return ItemRow(
        item_id=item.item_id,
        prompt_sha256=text_sha256(prompt),
        correct=correct,
        is_answered=is_answered,
        is_truncated=response.is_truncated,
        thought=answer.thought,
        tokens=answer.tokens,
        group=item.group,
        question=item.shown(),
        target=item.target,
        stated=stated_answer,
        response=str(response),
        reason=answer.reason,
    )


def _is_answered(answer: AnswerRow, sample: Mapping[str, Any]) -> bool:
    """Return whether an answer was chosen, or found by our scoring or else by lm-eval's filter."""
    if answer.choice_logprobs:
        return True
    if "no_answer" in sample:
        return not sample["no_answer"]
    return bool(_filtered(sample))


def _stated(
    benchmark: Benchmark, answer: AnswerRow, sample: Mapping[str, Any], item: Item
) -> str | None:
    """Return the answer that was scored; None if there is none or it is not known."""
    if answer.choice_logprobs:
        return answer.text
    if benchmark.stock_yaml is None:
        return stated(benchmark.data, Response(answer), item.choices)
    return _filtered(sample) if benchmark.filter != _NO_FILTER else None


def _filtered(sample: Mapping[str, Any]) -> str | None:
    """Return the answer that lm-eval's filter found, if any."""
    answer = str(sample["filtered_resps"][0]).strip()
    return answer if answer and answer != _NOTHING_FOUND else None
