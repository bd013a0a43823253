"""Readers of the rows of a benchmark, which make each of them a question for a model.

Rows come from a folder of files, from the small set, or from the Hub.
"""

import csv
import hashlib
import json
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from typing import Any, NamedTuple, cast

from rubric_core import SchemaError, read_tasks
from rubric_core.errors import needing_extra
from rubric_core.files import open_file, read_lines, text_sha256, toml_beside
from rubric_eval.errors import BenchmarkDataError
from rubric_eval.lm_tasks import SMALL_DATA
from rubric_eval.lm_tasks.answers.statements import statements


def shuffled(
    question: str,
    correct: str,
    wrong: Sequence[str],
) -> tuple[tuple[str, ...], int]:
    """Return the choices in an order drawn from the question, and the place of the correct one.

    The same question has the same order in every process, on every machine, in every subset.

    Args:
        question: text of the question.
        correct: the correct choice.
        wrong: the wrong choices.
    """
    choices: list[str] = []
    for choice in (correct, *wrong):
        text = choice.replace(" [title]", ". ")
        choices.append(re.sub(r"\s+", " ", text).strip())
    canonical = json.dumps([question, *choices])
    digest = hashlib.sha256(canonical.encode()).digest()
    seed = int.from_bytes(digest[:8], "big")
    order = list(range(len(choices)))
    random.Random(seed).shuffle(order)
    ordered = tuple(choices[index] for index in order)
    return ordered, order.index(0)


@dataclass(frozen=True)
class Item:
    """One question of a benchmark."""

    item_id: str
    """Hash of question, choices and target: the same in every run."""

    question: str
    target: str
    """Number, expression, or letter."""

    group: str = ""
    """Subject or domain, if the benchmark has one."""

    choices: tuple[str, ...] = ()
    """Texts of A to D, in the order in which they are shown."""

    def shown(self) -> str:
        """Return the question with its choices, for a reader of the answers."""
        if not self.choices:
            return self.question
        lines = [self.question, ""]
        for letter, text in zip("ABCD", self.choices, strict=False):
            lines.append(f"({letter}) {text}")
        return "\n".join(lines)

    def document(self) -> dict[str, object]:
        """Return the item as a document of lm-eval."""
        return {**asdict(self), "choices": list(self.choices)}


def read_items(
    benchmark: str,
    rows: Iterable[tuple[int, Mapping[str, object]]],
    *,
    source: Path | str,
) -> list[Item]:
    """Turn the rows of a benchmark into items.

    A question that occurs twice gives two items: the id of the second ends in `-2`.

    Args:
        benchmark: "gsm8k", "math", "gpqa_main" or "gpqa_diamond".
        rows: line number and fields of each row.
        source: file or data set, for errors.

    Raises:
        BenchmarkDataError: there are no rows, or one lacks a field of the benchmark.
    """
    read = READERS[benchmark]
    items: list[Item] = []
    counts: Counter[str] = Counter()
    for line, row in rows:
        try:
            item = read(row)
        except _FieldError as error:
            raise BenchmarkDataError(
                f"{source}:{line}: {error}; give the rows of {benchmark} as they are published"
            ) from None
        counts[item.item_id] += 1
        count = counts[item.item_id]
        if count > 1:
            item = replace(item, item_id=f"{item.item_id}-{count}")
        items.append(item)
    if not items:
        raise BenchmarkDataError(f"{source} holds no rows; give those of {benchmark}")
    return items


class _FieldError(ValueError):
    """A row lacks a field, or has one of the wrong form."""


def _gsm8k(row: Mapping[str, object]) -> Item:
    question = _text(row, "question")
    answer = _text(row, "answer")
    _, mark, target = answer.rpartition("####")
    if not mark or not target.strip():
        raise _FieldError("field 'answer' does not end in '#### ' and a number")
    return _item(question, target.strip().replace(",", ""))


def _math(row: Mapping[str, object]) -> Item:
    question = _text(row, "problem")
    group = str(row.get("subject") or row.get("type") or "")
    answer = row.get("answer")
    if isinstance(answer, str) and answer.strip():
        return _item(question, answer.strip(), group=group)
    stated = statements(_text(row, "solution"))
    boxes = [statement.text for statement in stated if statement.is_boxed]
    if not boxes:
        raise _FieldError(r"there is no field 'answer', and no \boxed{} in 'solution'")
    return _item(question, boxes[-1], group=group)


def _gpqa(row: Mapping[str, object]) -> Item:
    question = _text(row, "Question")
    correct = _text(row, "Correct Answer")
    wrong = [_text(row, f"Incorrect Answer {number}") for number in (1, 2, 3)]
    choices, position = shuffled(question, correct, wrong)
    group = str(row.get("High-level domain") or "")
    return _item(question, "ABCD"[position], group=group, choices=choices)


def _item(
    question: str,
    target: str,
    *,
    group: str = "",
    choices: tuple[str, ...] = (),
) -> Item:
    canonical = json.dumps([question, choices, target], ensure_ascii=True)
    item_id = text_sha256(canonical)[:16]
    return Item(
        item_id,
        question,
        target,
        group=group,
        choices=choices,
    )


def _text(row: Mapping[str, object], field: str) -> str:
    value = row.get(field)
    if not isinstance(value, str) or not value.strip():
        raise _FieldError(f"field {field!r} is missing, empty or no text")
    return value.strip()


READERS: dict[str, Callable[[Mapping[str, object]], Item]] = {
    "gsm8k": _gsm8k,
    "math": _math,
    "gpqa_main": _gpqa,
    "gpqa_diamond": _gpqa,
}
"""Functions that read a row, by benchmark."""


SMALL = "small"
"""Name in `--data` of the set that was written for this package."""


class HubBenchmark(NamedTuple):
    """Places where the rows of a benchmark are found."""

    files: list[str]
    """Names of local copies; the first one that exists is read."""
    hub: str
    """Data set of the Hugging Face Hub."""
    subsets: list[str]
    split: str
    is_gated: bool = False


_TABLE = toml_beside(__file__, "benchmarks.toml")
SOURCES = {name: HubBenchmark(**fields) for name, fields in _TABLE.items()}


@dataclass(frozen=True)
class Loaded:
    """Items and their source."""

    items: tuple[Item, ...]
    source: str


def load_items(benchmark: str, data: str | Path | None = None) -> Loaded:
    """Read a benchmark.

    Args:
        benchmark: "gsm8k", "math", "gpqa_main" or "gpqa_diamond".
        data: folder with local copies, "small", or None for the Hub.

    Raises:
        BenchmarkDataError: the data is missing, gated, or not well formed.
        MissingExtraError: the Hub is to be read without the extra installed.
    """
    if data is None:
        hub = SOURCES[benchmark]
        numbered = enumerate(_hub_rows(hub), start=1)
        items = read_items(benchmark, numbered, source=hub.hub)
        return Loaded(tuple(items), hub.hub)
    folder = SMALL_DATA if str(data) == SMALL else Path(data).expanduser()
    path = _find(benchmark, folder)
    read = _csv_rows if path.suffix == ".csv" else read_lines
    try:
        items = read_items(benchmark, read(path), source=path)
    except SchemaError as error:
        raise BenchmarkDataError(str(error)) from None
    source = str(path)
    if folder == SMALL_DATA:
        source = f"{SMALL}/{path.name}"
    return Loaded(tuple(items), source)


def _find(benchmark: str, folder: Path) -> Path:
    source = SOURCES[benchmark]
    for name in source.files:
        path = folder / name
        if path.is_file():
            return path
    problem = "there is no" if folder.is_dir() else "there is no such folder, nor"
    files = " or ".join(source.files)
    raise BenchmarkDataError(
        f"{folder}: {problem} {files} in it; put the data of {benchmark} there, or leave "
        f"--data out to take {source.hub} from the Hub"
    )


def _csv_rows(path: Path) -> Iterator[tuple[int, dict[str, object]]]:
    with TextIOWrapper(open_file(path), encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file, strict=True)  # a cut file ends within quotes
        try:
            for row in reader:
                yield reader.line_num, cast("dict[str, object]", row)
        except (csv.Error, UnicodeDecodeError) as error:
            line = reader.line_num + 1
            raise BenchmarkDataError(
                f"{path}:{line}: no CSV in UTF-8 ({error}); write it again"
            ) from None


def _hub_rows(source: HubBenchmark) -> Iterator[dict[str, object]]:
    with needing_extra(
        "rubric-eval", "lm-eval", by="data from the Hub, unlike a local copy,"
    ):
        datasets: Any = import_module("datasets")
    for name in source.subsets:
        try:
            split = datasets.load_dataset(source.hub, name, split=source.split)
        except Exception as error:  # any failure of the Hub, a proxy or a cache
            gated = ""
            if source.is_gated:
                gated = "; it is gated: accept its terms and log in first"
            files = " or ".join(source.files)
            kind = type(error).__name__
            raise BenchmarkDataError(
                f"{source.hub} ({name}) cannot be loaded from the Hub: {kind}{gated}; or name "
                f"a folder that holds {files} as the data"
            ) from error
        yield from split


_Documents = dict[str, Any]


def heldout(questions: str, **_: object) -> _Documents:
    """Return the questions of a file of tasks: only ids and prompts, as lm-eval logs its documents.

    Raises:
        BenchmarkDataError: the file holds no task, or one twice.
        RubricFileError: the file holds something other than tasks.
    """
    rows = [
        {
            "task_id": task.task_id,
            "doc_hash": task.doc_hash,
            "question": task.policy_view().message,
        }
        for task in read_tasks(Path(questions))
    ]
    if not rows:
        raise BenchmarkDataError(
            f"{questions} holds no task; give the held-out questions"
        )
    numbers: dict[str, int] = {}
    for number, row in enumerate(rows, start=1):
        task_id = row["task_id"]
        first = numbers.setdefault(task_id, number)
        if first != number:
            raise BenchmarkDataError(
                f"{questions}: task {task_id!r} is there twice, as number "
                f"{first} and {number}; drop the copies, which would count twice"
            )
    return _documents(rows)


def benchmark_documents(
    benchmark: str,
    data: str | None = None,
    **_: object,
) -> _Documents:
    """Return the documents of a benchmark in memory, neither memory-mapped nor cached by name."""
    loaded = load_items(benchmark, data)
    return _documents([item.document() for item in loaded.items])


def _documents(rows: list[dict[str, Any]]) -> _Documents:
    return {"test": import_module("datasets").Dataset.from_list(rows)}


# The YAML files name these as `custom_dataset`.
gsm8k = partial(benchmark_documents, "gsm8k")
math = partial(benchmark_documents, "math")
gpqa_main = partial(benchmark_documents, "gpqa_main")
gpqa_diamond = partial(benchmark_documents, "gpqa_diamond")
