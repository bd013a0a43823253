"""Rubrics that others wrote: read from their formats, and written into them.

    from rubric_core.formats import import_tasks

    tasks = [imported.task for imported in import_tasks("healthbench", Path("rows.jsonl"))]

Every format becomes tasks with non-negative weights whose normalised reward is an increasing linear
function of the source's own score, so that group-relative advantages are the same under both;
`source_scale` gives the function. The formats and their fields: `docs/formats.md`.
"""

from rubric_core.lazy import attach

__getattr__, __all__ = attach(__name__, __file__)
