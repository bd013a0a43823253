"""A task as a row of somebody's data set: its criteria in a column, whatever Arrow made of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import cast

from rubric_core.errors import RepeatedKeyError, SchemaError
from rubric_core.strict_json import decode


def paper_row(row: Mapping[str, object]) -> dict[str, object]:
    """Return a row whose criteria are under the paper's key, `criteria`.

    Args:
        row: has `criteria`, and comes back as it is; or has them in `rubric`, as a list, as
            `{"criteria": [...]}`, or as one of these in JSON.

    Raises:
        SchemaError: a rubric that is a text and not JSON.
    """
    if row.get("rubric") is None or row.get("criteria") is not None:
        return dict(row)
    rest = {name: value for name, value in row.items() if name not in {"rubric", "criteria"}}
    return {**rest, "criteria": criteria_of(row["rubric"], column="rubric")}


def criteria_of(rubric: object, *, column: str) -> object:
    """Return the criteria of a column, whatever a file format has made of them.

    Raises:
        SchemaError: a text that is not JSON.
    """
    if isinstance(rubric, str):
        try:
            rubric = decode(rubric)
        except (json.JSONDecodeError, RepeatedKeyError, RecursionError) as error:
            raise SchemaError(
                f"the column {column!r} is a text that is not JSON ({type(error).__name__})",
                field=column,
            ) from None
    rubric = _plain(rubric)
    if isinstance(rubric, dict):
        rubric = cast("dict[str, object]", rubric).get("criteria")
    return rubric


def _plain(value: object) -> object:
    """Drop the keys without a value, which Arrow gives to every row that lacks a field."""
    match value:
        case Mapping():
            fields = cast("Mapping[str, object]", value)
            return {key: _plain(item) for key, item in fields.items() if item is not None}
        case str():
            return value
        case Sequence():
            return [_plain(item) for item in cast("Sequence[object]", value)]
        case _:
            # A list column read through pandas is an array, and a number in it a scalar.
            to_list = getattr(value, "tolist", None)
            return value if to_list is None else _plain(to_list())
