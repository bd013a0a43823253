"""Benchmarks as lm-eval's tasks, with the prompts that every model is given."""

from __future__ import annotations

import hashlib
import json
import logging
import re
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from rubric_core import ConfigError, Decoding, MissingExtraError
from rubric_core.errors import install_command
from rubric_eval.lm_tasks import TASKS_PATH
from rubric_eval.lm_tasks.answers import EXTRACTION
from rubric_eval.lm_tasks.sources import load_items
from rubric_eval.records.rows import items_sha256
from rubric_eval.transfer.suites import stock_config

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from rubric_eval.lm_tasks.items import Item
    from rubric_eval.transfer.suites import Benchmark

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
        limit: only the first items of each, to try something out.

    Raises:
        BenchmarkDataError: data is missing or not well formed.
        MissingExtraError: lm-eval is not installed.
    """
    if limit is not None and limit < 1:
        raise ConfigError(f"limit {limit} must be at least 1, or left out", location="limit")
    with quiet():
        return [_build(one, data, decoding, max_tokens, limit) for one in benchmarks]


def harness(module: str) -> Any:
    """Import a module of lm-eval.

    Raises:
        MissingExtraError: it is not installed.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtraError(
            f"benchmarks are run by lm-eval 0.4.13, which is not usable here ({error}): "
            f"{install_command('rubric-eval', 'lm-eval')}"
        ) from error


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
    manager = tasks.TaskManager(
        include_defaults=False, include_path=[str(TASKS_PATH)], metadata=metadata
    )
    stock = stock_config(benchmark, loaded.items, folder=Path(tasks.__file__).parent)
    task = manager.load([benchmark.task if stock is None else stock])["tasks"][benchmark.task]
    task.set_fewshot_seed(seed=0)
    task.build_all_requests(limit=limit, rank=0, world_size=1)
    instances = cast("list[Any]", task.instances)
    by_id = {item.item_id: item for item in loaded.items}
    return Built(
        benchmark=benchmark,
        task=task,
        items=tuple(by_id[one.doc["item_id"]] for one in instances),
        prompts=tuple(one.args[0] for one in instances),
        decoding=_decoding(benchmark, task, decoding, max_tokens),
        source=loaded.source,
        template=_template(benchmark, task),
        limit=limit,
    )


def _decoding(
    benchmark: Benchmark,
    task: Any,
    decoding: Decoding,
    max_tokens: int | None,
) -> Decoding:
    """Take the task's stops; a special token is none, for no answer's text holds one."""
    given: Any = cast("dict[str, Any]", task.config.generation_kwargs or {}).get("until")
    until = [given] if isinstance(given, str) else cast("list[str]", given or [])
    return decoding.model_copy(
        update={
            "max_tokens": max_tokens or benchmark.max_tokens,
            "stop": tuple(stop for stop in until if not _SPECIAL_TOKEN.fullmatch(stop)),
        }
    )


def _template(benchmark: Benchmark, task: Any) -> str:
    config = task.config
    shots = getattr(config, "num_fewshot", None)
    text = config.doc_to_text if isinstance(config.doc_to_text, str) else repr(benchmark.task)
    version = str(cast("dict[str, Any]", config.metadata or {}).get("version"))
    return _hash([benchmark.task, text, shots, version, benchmark.filter, EXTRACTION])


def _hash(content: object) -> str:
    canonical = json.dumps(content, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()
