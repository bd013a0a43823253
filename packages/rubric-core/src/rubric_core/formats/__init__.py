"""Rubrics that others wrote: read from their formats, and written into them.

    from rubric_core.formats import import_tasks

    tasks = [imported.task for imported in import_tasks("healthbench", Path("rows.jsonl"))]

Every format becomes tasks with non-negative weights whose normalised reward is an increasing linear
function of the source's own score, so that group-relative advantages are the same under both;
`source_scale` gives the function. The formats and their fields: `docs/formats.md`.
"""

from __future__ import annotations

from rubric_core.formats.draft import Imported, SourceScale, is_penalty, source_scale
from rubric_core.formats.reading import ImportOptions, import_formats, import_tasks
from rubric_core.formats.writing import export_formats, export_tasks

__all__ = [
    "ImportOptions",
    "Imported",
    "SourceScale",
    "export_formats",
    "export_tasks",
    "import_formats",
    "import_tasks",
    "is_penalty",
    "source_scale",
]
