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
from typing import Any, Final, NamedTuple, cast

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
from rubric_eval.errors import BenchmarkDataError
from rubric_eval.lm_tasks import TASKS_PATH
from rubric_eval.lm_tasks.answers.statements import EXTRACTION
from rubric_eval.lm_tasks.scoring import Response, stated
from rubric_eval.lm_tasks.sources import Item, load_items
from rubric_eval.records.files import AnswerRow, ItemRow, items_sha256
from rubric_eval.records.inputs import canonical_json, text_sha256
from rubric_eval.transfer.suites import SUITES, Benchmark, SuiteName, stock_config

_SPECIAL_TOKEN: Final = re.compile(r"</?\|?.*\|?>")


@dataclass(frozen=True)
class Built:
    """A benchmark that is ready to be asked and scored."""

    benchmark: Benchmark
    task: Any
    """lm-eval's task."""

    items: tuple[Item, ...]
    prompts: tuple[str, ...]
    """Of each item, the same for every model; a model's chat template goes around it."""

    decoding: Decoding
    source: str
    template: str
    """Hash of what makes prompts of items, and scores of responses."""

    limit: int | None
    choices: tuple[str, ...] = ()
    """Texts of which a model's likeliest is its answer; empty where it writes one."""

    @property
    def ids(self) -> tuple[str, ...]:
        """Of the items."""
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
        benchmarks: which.
        data: a folder of local copies, "small", or None for the Hub.
        decoding: how tokens are drawn; tokens and stops are each benchmark's own.
        max_tokens: tokens of an answer, in place of each benchmark's own.
        limit: only the first items of each, at least 1, to try something out.

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
        MissingExtraError: it is not installed.
    """
    with needing_extra("rubric-eval", "lm-eval", by="running benchmarks"):
        return import_module(module)


@contextmanager
def quiet() -> Generator[None]:
    """Keep lm-eval's notes and bars off the terminal; its warnings are for its own tasks."""
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
    # One for each choice, where there are some.
    instances = [one for one in cast("list[Any]", task.instances) if one.idx == 0]
    is_choice = task.OUTPUT_TYPE == "multiple_choice"
    given: Any = cast("dict[str, Any]", task.config.generation_kwargs or {}).get(
        "until"
    )
    until = [given] if isinstance(given, str) else cast("list[str]", given or [])
    # The task's stops; a special token is none, for no answer's text holds one.
    stop = tuple(one for one in until if not _SPECIAL_TOKEN.fullmatch(one))
    own = {"max_tokens": max_tokens or benchmark.max_tokens, "stop": stop}
    by_id = {item.item_id: item for item in loaded.items}
    return Built(
        benchmark=benchmark,
        task=task,
        items=tuple(by_id[instance.doc["item_id"]] for instance in instances),
        prompts=tuple(instance.args[0] for instance in instances),
        decoding=decoding.model_copy(update=own),
        source=loaded.source,
        template=_template(benchmark, task),
        limit=limit,
        choices=tuple(task.doc_to_choice(instances[0].doc)) if is_choice else (),
    )


def _template(benchmark: Benchmark, task: Any) -> str:
    config = task.config
    shots = getattr(config, "num_fewshot", None)
    text = (
        config.doc_to_text
        if isinstance(config.doc_to_text, str)
        else repr(benchmark.task)
    )
    version = str(cast("dict[str, Any]", config.metadata or {}).get("version"))
    return text_sha256(
        canonical_json(
            [benchmark.task, text, shots, version, benchmark.filter, EXTRACTION]
        )
    )


_HELDOUT: Final = "rubric_heldout"


class Validated(NamedTuple):
    """What became of one task."""

    task: str
    items: int | None
    """None where it could not be built."""

    source: str
    """Where its items are from, or what is missing."""


def validate(
    *,
    data: str | Path | None = None,
    suites: tuple[SuiteName, ...] = tuple(SuiteName),
    tasks: Path | None = None,
    judge: Path | None = None,
) -> list[Validated]:
    """Build every task, with all prompts, and say which cannot be.

    Args:
        data: a folder of local copies, "small", or None for the Hub.
        suites: which; `rubric_heldout` is in none of them, and is always built.
        tasks: held-out questions of `rubric_heldout`; None for one that stands for any.
        judge: its judge, which is asked whether it is there; None for that of claims.

    Raises:
        MissingExtraError: lm-eval is not installed, so that nothing can be built.
    """
    for module in ("lm_eval", "math_verify"):
        harness(module)
    validateds = [
        _validate(benchmark, data) for suite in suites for benchmark in SUITES[suite]
    ]
    return [*validateds, _validate_heldout(tasks, judge)]


def _validate(benchmark: Benchmark, data: str | Path | None) -> Validated:
    try:
        (built,) = build([benchmark], data=data, decoding=Decoding())
    except BenchmarkDataError as error:
        return Validated(benchmark.task, None, str(error))
    return Validated(benchmark.task, len(built.ids), built.source)


def _validate_heldout(tasks: Path | None, judge: Path | None) -> Validated:
    """Build the task whose questions and judge are the user's, with stand-ins for what is not."""
    with TemporaryDirectory() as folder:
        questions = Path(folder, "tasks.jsonl")
        reader = Path(folder, "judge.yaml")
        questions = tasks or questions
        reader = judge or reader
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
    source = (
        f"{tasks or 'a question that stands for any'}, {judge or 'the judge of claims'}"
    )
    return Validated(_HELDOUT, len(task.instances), source)


def _load(
    name: str, metadata: dict[str, str], config: dict[str, Any] | None = None
) -> Any:
    """Load a task of ours, or of a configuration, as lm-eval has it."""
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
        answers: by prompt.

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
    chosen = [
        sample for sample in samples if sample["filter"] == built.benchmark.filter
    ]
    return sorted(chosen, key=lambda one: one["doc_id"])


def _model(answers: Mapping[str, AnswerRow]) -> Any:
    from lm_eval.api.model import LM

    class Recorded(LM):
        def generate_until(self, requests: list[Any]) -> list[str]:
            return [Response(answers[request.args[0]]) for request in requests]

        def loglikelihood(self, requests: list[Any]) -> list[tuple[float, bool]]:
            # Of an answer that never came, any: its score is not looked at.
            found = [
                (answers[request.args[0]].choice_logprobs, request.idx)
                for request in requests
            ]
            return [(of[idx] if of else 0.0, False) for of, idx in found]

        # lm-eval's class asks for it, and no benchmark here.
        def loglikelihood_rolling(self, requests: list[Any]) -> list[float]:
            raise NotImplementedError

    return Recorded()


_NOTHING_FOUND: Final = "[invalid]"
"""What lm-eval's filters write where they find no answer."""
_NO_FILTER: Final = "none"
"""The whole response is scored, by a rule of the task's own."""


def scored_items(built: Built, answers: Mapping[str, AnswerRow]) -> list[ItemRow]:
    """Score the answers to a benchmark.

    Args:
        built: the benchmark.
        answers: by item.

    Returns:
        A row for each item, in their order; one without an answer is neither right nor wrong.
    """
    by_prompt = {
        prompt: answers[item_id]
        for item_id, prompt in zip(built.ids, built.prompts, strict=True)
    }
    samples = scored_samples(built, by_prompt)
    return [
        _row(built.benchmark, answers[item.item_id], sample, item=item, prompt=prompt)
        for item, prompt, sample in zip(
            built.items, built.prompts, samples, strict=True
        )
    ]


def _row(
    benchmark: Benchmark,
    answer: AnswerRow,
    sample: Mapping[str, Any],
    *,
    item: Item,
    prompt: str,
) -> ItemRow:
    is_available = answer.text is not None
    response = Response(answer)
    return ItemRow(
        item_id=item.item_id,
        prompt_sha256=text_sha256(prompt),
        correct=bool(sample["acc" if "acc" in sample else "exact_match"])
        if is_available
        else None,
        is_answered=is_available
        and (
            # By our own scoring, or by whether lm-eval's filter found something. A choice is one.
            bool(answer.choice_logprobs)
            or (
                not sample["no_answer"]
                if "no_answer" in sample
                else bool(_filtered(sample))
            )
        ),
        is_truncated=response.is_truncated,
        thought=answer.thought,
        tokens=answer.tokens,
        group=item.group,
        question=item.shown(),
        target=item.target,
        stated=_stated(benchmark, answer, sample, item) if is_available else None,
        response=str(response),
        reason=answer.reason,
    )


def _stated(
    benchmark: Benchmark, answer: AnswerRow, sample: Mapping[str, Any], item: Item
) -> str | None:
    """Return the answer that was scored; None where there is none, or nobody says which it is."""
    if answer.choice_logprobs:
        return answer.text
    if benchmark.stock_yaml is None:
        return stated(benchmark.data, Response(answer), item.choices)
    return _filtered(sample) if benchmark.filter != _NO_FILTER else None


def _filtered(sample: Mapping[str, Any]) -> str | None:
    """What lm-eval's filter found, if anything."""
    found = str(sample["filtered_resps"][0]).strip()
    return found if found and found != _NOTHING_FOUND else None
