"""Data sets that the `datasets` library opens: their splits and rows, in the process that reads.

Its builders take a whole row group into memory, whatever its texts unpack to, so that it works in
a process whose memory is limited.
"""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_STATE_FILE: Final = "state.json"
_SPLITS_FILE: Final = "dataset_dict.json"
_opened: Final[dict[str, Mapping[str, Any]]] = {}


def answers(job: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the names of the splits of a data set, or the rows of one split.

    The library raises errors of many kinds, its file systems' among them: this is the boundary.
    """
    try:
        splits = _splits(job["path"])
    except Exception as error:  # noqa: BLE001 - see the docstring
        yield {"error": _told(error)}
        return
    if "split" not in job:
        yield {"splits": list(splits)}
        return
    try:
        for row in _read_columns(splits[job["split"]], frozenset(job["columns"])):
            yield _measured(dict(row), job["most"])
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - see the docstring
        yield {"refused": "unreadable", "detail": type(error).__name__}
    else:
        yield {"done": True}


def _measured(row: dict[str, object], most: int) -> dict[str, object]:
    texts = [text for value in row.values() for text in _texts(value)]
    size = sum(map(len, texts))
    return {"bytes": size} if size > most else {"row": row}


def _texts(value: object) -> list[str]:
    if isinstance(value, list):
        return [text for part in cast("list[object]", value) for text in _texts(part)]
    return [value] if isinstance(value, str) else []


def _splits(path: str) -> Mapping[str, Any]:
    """Open a data set without reading its rows, once."""
    if path not in _opened:
        datasets: Any = import_module("datasets")
        _opened[path] = _saved(Path(path), datasets) or _loaded(path, datasets)
    return _opened[path]


def _loaded(path: str, datasets: Any) -> Mapping[str, Any]:
    found: Any = datasets.load_dataset(path, streaming=True)
    if isinstance(found, dict):
        return {str(name): rows for name, rows in cast("dict[object, Any]", found).items()}
    return {str(found.split or "all"): found}


def _saved(folder: Path, datasets: Any) -> dict[str, Any]:
    """Return the splits that `save_to_disk` wrote; those without a row, which it cannot open, too.

    Nothing is returned for any other folder.
    """
    if (folder / _SPLITS_FILE).is_file():
        names: list[str] = json.loads((folder / _SPLITS_FILE).read_bytes())["splits"]
        return {name: _saved_split(folder / name, datasets)[1] for name in names}
    if (folder / _STATE_FILE).is_file():
        return dict([_saved_split(folder, datasets)])
    return {}


def _saved_split(folder: Path, datasets: Any) -> tuple[str, Any]:
    state: dict[str, Any] = json.loads((folder / _STATE_FILE).read_bytes())
    rows: Any = datasets.load_from_disk(str(folder)) if state["_data_files"] else None
    return str(state.get("_split") or "all"), rows


def _told(error: Exception) -> str:
    """Describe an error without words of the data, which a parser's message may hold."""
    package = type(error).__module__.partition(".")[0]
    name = type(error).__name__
    if package in {"datasets", "huggingface_hub"} or type(error) in {FileNotFoundError, ValueError}:
        return f"{name}: {error}"
    return name


def _read_columns(table: Any, columns: frozenset[str]) -> Iterable[dict[str, object]]:
    """Return the rows with the columns that are read: pictures and sound stay unread."""
    if table is None:
        return ()
    if table.column_names is None:
        return cast("Iterable[dict[str, object]]", table)
    known = [column for column in table.column_names if column in columns]
    if known:
        return cast("Iterable[dict[str, object]]", table.select_columns(known))
    # The library leaves no rows without columns, and they are to be counted.
    if (count := getattr(table, "num_rows", None)) is not None:
        return ({} for _ in range(count))
    return ({} for _ in table)
