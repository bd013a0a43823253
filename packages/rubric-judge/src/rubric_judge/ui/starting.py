"""Files that `init` writes into a folder: configurations that ship with a package, and examples."""

import json
from collections.abc import Mapping
from importlib import resources
from pathlib import Path

from rubric_core import ConfigError, read_tasks

__all__ = ["example_files", "preset", "presets", "write_new"]


def presets(package: str) -> list[str]:
    """Return the names of the configurations in a package's folder `starting`."""
    files = resources.files(package).joinpath("starting").iterdir()
    return sorted(
        file.name.removesuffix(".yaml") for file in files if file.name.endswith(".yaml")
    )


def preset(package: str, name: str, *, flag: str) -> str:
    """Return the text of one of them.

    Args:
        package: the importable package that holds it.
        name: of the file, without its ending.
        flag: how the command line calls the name.

    Raises:
        ConfigError: there is none of this name.
    """
    known = presets(package)
    if name not in known:
        problem = f"there is no such configuration; give one of {', '.join(known)}"
        raise ConfigError(f"{flag} {name!r}: {problem}", location=flag.lstrip("-"))
    file = resources.files(package).joinpath("starting", f"{name}.yaml")
    return file.read_text(encoding="utf-8")


def example_files() -> dict[str, str]:
    """Return tasks, and answers to them: each task's reference answer, and one that says little."""
    file = resources.files("rubric_judge").joinpath("starting", "tasks.jsonl")
    with resources.as_file(file) as path:
        rows = [
            {"task_id": task.task_id, "response": response}
            for task in read_tasks(path)
            for response in (task.reference_answer, "That depends on many things.")
        ]
    answers = "".join(f"{json.dumps(row)}\n" for row in rows)
    return {"tasks.jsonl": file.read_text(encoding="utf-8"), "answers.jsonl": answers}


def write_new(folder: Path, texts: Mapping[str, str]) -> list[Path]:
    """Write files that are not there yet, and the folder.

    Args:
        folder: where.
        texts: by file name.

    Raises:
        ConfigError: one of the files exists, in which case none is written, or the folder cannot
            be made.
    """
    paths = [folder / name for name in texts]
    there = [str(path) for path in paths if path.exists() or path.is_symlink()]
    if there:
        problem = "there already, and not overwritten; name another folder"
        raise ConfigError(f"{', '.join(there)}: {problem}", location="folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, text in zip(paths, texts.values(), strict=True):
            with path.open(
                "x", encoding="utf-8"
            ) as file:  # a file that came meanwhile stays
                file.write(text)
    except OSError as error:
        problem = f"cannot be written to ({error.strerror}): name another folder"
        raise ConfigError(f"{folder}: {problem}", location="folder") from None
    return paths
