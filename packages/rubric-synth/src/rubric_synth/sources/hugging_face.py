"""`hf:PATH` and `hf:PATH:SPLIT`: a data set that the `datasets` library opens, row by row."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from rubric_synth.errors import SourceError
from rubric_synth.rejection import RejectionReason
from rubric_synth.sources.extras import need_extra
from rubric_synth.sources.opening import unreadable
from rubric_synth.sources.raw_text import NotTextError
from rubric_synth.sources.records import RecordReader

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from rubric_synth.config import CollectConfig
    from rubric_synth.document import Document
    from rubric_synth.rejection import Rejection

_STATE_FILE: Final = "state.json"
_SPLITS_FILE: Final = "dataset_dict.json"


def read_hugging_face(location: str, *, config: CollectConfig) -> Iterator[Document | Rejection]:
    """Yield one document per row of a data set, split by split.

    Args:
        location: A folder that `save_to_disk` wrote, or what `load_dataset` takes; after it,
            a colon and a split, or else all of them.
        config: Limits, and names of fields.

    Raises:
        SourceError: `datasets` is not installed, or cannot open it, or there is no such split.
    """
    source = f"hf:{location}"
    need_extra("datasets", source=source)
    path, _, split = location.rpartition(":")
    if not path or Path(location).exists():
        path, split = location, ""
    splits = _opened(path, source)
    if split and split not in splits:
        message = f"source {source!r} has no split {split!r}; it has {sorted(splits)!r}"
        raise SourceError(message, source=source)
    chosen = {split: splits[split]} if split else splits
    folder = Path(path)
    name = folder.resolve().name if folder.exists() else path
    return _rows(chosen, f"hf:{name}", RecordReader(config))


def _opened(path: str, source: str) -> Mapping[str, Any]:
    """Open a data set without reading its rows.

    The library raises errors of many kinds, its file systems' among them: this is the boundary.
    """
    datasets: Any = import_module("datasets")
    try:
        if saved := _saved(Path(path), datasets):
            return saved
        found: Any = datasets.load_dataset(path, streaming=True)
    except Exception as error:
        message = f"source {source!r} cannot be opened by `datasets` ({_told(error)})"
        if not Path(path).exists():
            message += (
                f"; there is no folder {path!r} here either: check the name, and that the "
                "Hugging Face Hub can be reached"
            )
        raise SourceError(message, source=source) from error
    if isinstance(found, dict):
        return {str(name): rows for name, rows in cast("dict[object, Any]", found).items()}
    return {str(found.split or "all"): found}


def _saved(folder: Path, datasets: Any) -> dict[str, Any]:  # noqa: ANN401 - no types
    """Return the splits that `save_to_disk` wrote; those without a row, which it cannot open, too.

    Nothing is returned for any other folder.
    """
    if (folder / _SPLITS_FILE).is_file():
        names: list[str] = json.loads((folder / _SPLITS_FILE).read_bytes())["splits"]
        return {name: _saved_split(folder / name, datasets)[1] for name in names}
    if (folder / _STATE_FILE).is_file():
        return dict([_saved_split(folder, datasets)])
    return {}


def _saved_split(folder: Path, datasets: Any) -> tuple[str, Any]:  # noqa: ANN401 - no types
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


def _rows(
    splits: Mapping[str, Any], name: str, records: RecordReader
) -> Iterator[Document | Rejection]:
    """Yield the documents; where reading breaks off, one rejection says at which row."""
    for split, table in splits.items():
        file = f"{name}:{split}"
        number = 0
        try:
            for number, row in enumerate(_read_columns(table, records), start=1):
                try:
                    yield records.document(dict(row), file=file, number=number)
                except NotTextError as error:
                    yield error.rejection(f"{file}:{number}")
        except Exception as error:  # noqa: BLE001 - see `_opened`
            yield unreadable(error).rejection(f"{file}:{number + 1}")
        else:
            if not number:
                yield NotTextError(RejectionReason.EMPTY, "no row").rejection(file)


def _read_columns(table: Any, records: RecordReader) -> Iterable[dict[str, object]]:  # noqa: ANN401
    """Return the rows with the columns that are read: pictures and sound stay unread."""
    if table is None:
        return ()
    if table.column_names is None:
        return cast("Iterable[dict[str, object]]", table)
    known = [column for column in table.column_names if column in records.columns]
    if known:
        return cast("Iterable[dict[str, object]]", table.select_columns(known))
    # The library leaves no rows without columns, and they are to be counted.
    if (count := getattr(table, "num_rows", None)) is not None:
        return ({} for _ in range(count))
    return ({} for _ in table)
