"""Where the rows of a benchmark come from: a folder of files, the small set, or the Hub."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from rubric_core import MissingExtraError, SchemaError, read_tasks
from rubric_core.errors import install_command
from rubric_core.files import open_file, read_lines
from rubric_eval.errors import BenchmarkDataError
from rubric_eval.lm_tasks import SMALL_DATA
from rubric_eval.lm_tasks.items import Item, read_items

if TYPE_CHECKING:
    from collections.abc import Iterator


SMALL: Final = "small"
"""What `--data` calls the set that was written for this package."""

_FILES: Final = {
    "gsm8k": ("gsm8k_test.jsonl",),
    "math": ("math_test.jsonl", "math500_test.jsonl"),
    "gpqa_main": ("gpqa_main.csv", "gpqa_main.jsonl"),
    "gpqa_diamond": ("gpqa_diamond.csv", "gpqa_diamond.jsonl"),
}
"""Names of local copies, the first one that is there is taken."""


@dataclass(frozen=True)
class HubSource:
    """A data set of the Hugging Face Hub."""

    path: str
    names: tuple[str, ...]
    split: str
    is_gated: bool = False


HUB: Final = {
    "gsm8k": HubSource("openai/gsm8k", ("main",), "test"),
    "math": HubSource(
        "EleutherAI/hendrycks_math",
        (
            "algebra",
            "counting_and_probability",
            "geometry",
            "intermediate_algebra",
            "number_theory",
            "prealgebra",
            "precalculus",
        ),
        "test",
    ),
    "gpqa_main": HubSource("Idavidrein/gpqa", ("gpqa_main",), "train", is_gated=True),
    "gpqa_diamond": HubSource("Idavidrein/gpqa", ("gpqa_diamond",), "train", is_gated=True),
}


@dataclass(frozen=True)
class Loaded:
    """Items and where they are from."""

    items: tuple[Item, ...]
    source: str


def load_items(benchmark: str, data: str | Path | None = None) -> Loaded:
    """Read a benchmark.

    Args:
        benchmark: "gsm8k", "math", "gpqa_main" or "gpqa_diamond".
        data: a folder with local copies, "small", or None for the Hub.

    Raises:
        BenchmarkDataError: the data is missing, gated, or not well formed.
        MissingExtraError: the Hub is asked for without the extra.
    """
    if data is None:
        return _from_hub(benchmark)
    folder = SMALL_DATA if str(data) == SMALL else Path(data).expanduser()
    path = _find(benchmark, folder)
    rows = _csv_rows(path) if path.suffix == ".csv" else read_lines(path)
    try:
        items = read_items(benchmark, rows, source=path)
    except SchemaError as error:
        raise BenchmarkDataError(str(error)) from None
    source = f"{SMALL}/{path.name}" if folder == SMALL_DATA else str(path)
    return Loaded(tuple(items), source)


def _find(benchmark: str, folder: Path) -> Path:
    names = _FILES[benchmark]
    for name in names:
        if (folder / name).is_file():
            return folder / name
    problem = "there is no" if folder.is_dir() else "there is no such folder, nor"
    raise BenchmarkDataError(
        f"{folder}: {problem} {' or '.join(names)} in it; put the data of {benchmark} there, or "
        f"leave --data out to take {HUB[benchmark].path} from the Hub"
    )


def _csv_rows(path: Path) -> Iterator[tuple[int, dict[str, object]]]:
    with TextIOWrapper(open_file(path), encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file, strict=True)  # a cut file ends within quotes
        try:
            for row in reader:
                yield reader.line_num, cast("dict[str, object]", row)
        except (csv.Error, UnicodeDecodeError) as error:
            raise BenchmarkDataError(
                f"{path}:{reader.line_num + 1}: no CSV in UTF-8 ({error}); write it again"
            ) from None


def _from_hub(benchmark: str) -> Loaded:
    source = HUB[benchmark]
    rows = ((number, row) for number, row in enumerate(_hub_rows(benchmark, source), start=1))
    return Loaded(tuple(read_items(benchmark, rows, source=source.path)), source.path)


def _hub_rows(benchmark: str, source: HubSource) -> Iterator[dict[str, object]]:
    try:
        datasets: Any = import_module("datasets")
    except ImportError as error:
        raise MissingExtraError(
            "data from the Hub needs datasets: "
            f"{install_command('rubric-eval', 'lm-eval')}; or name a folder with local copies"
        ) from error
    for name in source.names:
        try:
            split = datasets.load_dataset(source.path, name, split=source.split)
        except Exception as error:  # whatever the Hub, a proxy or a cache does
            gated = "; it is gated: accept its terms and log in first" if source.is_gated else ""
            raise BenchmarkDataError(
                f"{source.path} ({name}) cannot be loaded from the Hub: {type(error).__name__}"
                f"{gated}; or name a folder that holds {' or '.join(_FILES[benchmark])} as the data"
            ) from error
        yield from split


_Documents = dict[str, Any]


def gsm8k(data: str | None = None, **_: object) -> _Documents:
    """GSM8K's test split."""
    return benchmark_documents("gsm8k", data)


def math(data: str | None = None, **_: object) -> _Documents:
    """MATH's test split, or the part of it that is in the folder."""
    return benchmark_documents("math", data)


def gpqa_main(data: str | None = None, **_: object) -> _Documents:
    """GPQA Main."""
    return benchmark_documents("gpqa_main", data)


def gpqa_diamond(data: str | None = None, **_: object) -> _Documents:
    """GPQA Diamond."""
    return benchmark_documents("gpqa_diamond", data)


def heldout(questions: str | None = None, **_: object) -> _Documents:
    """Questions of a file of tasks: ids and questions alone, for lm-eval logs its documents.

    Raises:
        BenchmarkDataError: no file is named, or it holds no task, or one twice.
        RubricFileError: it holds something else.
    """
    if not questions:
        raise BenchmarkDataError(
            "rubric_heldout has no questions: name the file of tasks, "
            "`--metadata questions=test.jsonl judge=judge.yaml`"
        )
    rows: list[dict[str, Any]] = [
        {"task_id": task.task_id, "doc_hash": task.doc_hash, "question": task.question}
        for task in read_tasks(Path(questions))
    ]
    if not rows:
        raise BenchmarkDataError(f"{questions} holds no task; give the held-out questions")
    first: dict[str, int] = {}
    for number, row in enumerate(rows, start=1):
        if first.setdefault(row["task_id"], number) != number:
            raise BenchmarkDataError(
                f"{questions}: task {row['task_id']!r} is there twice, as number "
                f"{first[row['task_id']]} and {number}; drop the copies, which would count twice"
            )
    return _documents(rows)


def benchmark_documents(benchmark: str, data: str | None) -> _Documents:
    """Documents of a benchmark, in memory: nothing of them is mapped, or cached by its name."""
    loaded = load_items(benchmark, data)
    return _documents([item.document() for item in loaded.items])


def _documents(rows: list[dict[str, Any]]) -> _Documents:
    return {"test": import_module("datasets").Dataset.from_list(rows)}
