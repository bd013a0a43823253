"""Rubrics that a configuration names by path: a dataset, a file of tasks, or one rubric for all."""

import json
import tempfile
from pathlib import Path
from typing import cast

from rubric_core import ConfigError, Rubric, RubricFileError, SchemaError
from rubric_core.files import read_file
from rubric_core.formats import ImportOptions, import_tasks
from rubric_core.nearest import no_such_file
from rubric_core.strict_json import decode

_SPLITS = ("train.jsonl", "validation.jsonl", "test.jsonl")
"""Files of tasks in a dataset folder of rubric-synth."""
_OF_TASKS = (".jsonl", ".parquet")


def task_files(path: Path) -> tuple[Path, ...]:
    """Return the task files that a path names; none where it is one rubric for all tasks.

    Args:
        path: a file of tasks, a folder with `train.jsonl` and others or with `tasks.jsonl`, or a
            `.json` or `.toml` file with one rubric.

    Raises:
        ConfigError: there is no such file, or the folder holds no task file.
    """
    if path.is_dir():
        names = (*_SPLITS, "tasks.jsonl")
        matches = tuple(path / name for name in names if (path / name).is_file())
        if not matches:
            raise ConfigError(
                f"{path}: a folder without {', '.join(names[:-1])} or {names[-1]}: name a dataset "
                "folder, a file of tasks, or a .json or .toml file with one rubric",
                location="rubrics",
            )
        return matches
    if not path.exists():
        raise ConfigError(no_such_file(path), location="rubrics")
    return (path,) if path.suffix.lower() in _OF_TASKS else ()


def one_rubric(path: Path) -> list[dict[str, object]]:
    """Read a file with one rubric: the paper's criteria, or verifiers' `criteria` list.

    Raises:
        RubricFileError: it holds no rubric, or several.
        OSError: it cannot be read.
    """
    if path.suffix.lower() == ".json":
        criteria = decode(read_file(path))
        if isinstance(criteria, dict):
            criteria = cast("dict[str, object]", criteria).get("criteria")
        if _is_paper(criteria):
            try:
                return Rubric.model_validate({"criteria": criteria}).reveal()
            except SchemaError as error:
                raise RubricFileError(
                    str(error), path=path, field=error.field
                ) from None
    with tempfile.TemporaryDirectory() as folder:
        questions = Path(folder) / "questions.jsonl"
        # The reader joins a rubric without a question to each of these.
        questions.write_text(json.dumps({"question": "any"}) + "\n", encoding="utf-8")
        options = ImportOptions(questions=questions)
        rubrics = [
            entry.task for entry in import_tasks("criteria", path, options=options)
        ]
    if len(rubrics) != 1:
        raise RubricFileError(f"holds {len(rubrics)} rubrics, not one", path=path)
    return rubrics[0].rubric.reveal()


def _is_paper(criteria: object) -> bool:
    """Tell whether criteria have ids, as the paper's do."""
    if not isinstance(criteria, list):
        return False
    return all(
        isinstance(entry, dict) and "id" in entry
        for entry in cast("list[object]", criteria)
    )
