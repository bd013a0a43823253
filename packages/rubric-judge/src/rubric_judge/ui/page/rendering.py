"""Pages that need no other file and no network, made of a package's own templates."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from markupsafe import Markup

from rubric_core.files import write_text
from rubric_judge.ui.page.charts import Chart
from rubric_judge.ui.page.drawing import readings, svg
from rubric_judge.ui.page.links import Leads
from rubric_judge.ui.page.tables import Report, bounds, written

if TYPE_CHECKING:
    import jinja2

_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)
_PERCENT = re.compile(r"(?<=\d) %")
_MARK = "[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff]"
_STACKED = re.compile(f"({_MARK}{{3}}){_MARK}+")
"""More marks over one letter than any language writes; they would cover the lines beside it."""


def visible(text: str) -> str:
    """Replace every control, bidirectional and surrogate character of a text by its number.

    Letters of all scripts stay as they are. Marks beyond the third over one letter are removed.
    """
    return _STACKED.sub(r"\1", _UNSEEN.sub(_code_point, text.replace("\r\n", "\n")))


def shortened(text: str, limit: int, *, where: str) -> str:
    """Cut a text, made visible, and add how much is left out and where it can be read.

    Args:
        text: a model's text.
        limit: most characters.
        where: what holds the whole text, for the note.
    """
    if len(text) <= limit:
        return visible(text)
    left = len(text) - limit
    return f"{visible(text[:limit])} […{left:,} more characters in {where}]"


def _code_point(match: re.Match[str]) -> str:
    return f"[U+{ord(match[0]):04X}]"


_KIT = __package__ or ""


def render_page(
    package: str | None,
    name: str,
    content: Mapping[str, object],
    *,
    style: str = "",
    scripts: Sequence[str] = (),
    asks: bool = False,
) -> str:
    """Render a template that extends `frame.html.j2`, with its style and its scripts inlined.

    Charts, tables and other parts are macros of `kit.html.j2`; `page.css` is the look of all pages,
    to which the page's style sheet adds its own rules.

    Every text is escaped and made visible. The page may run only the given scripts, which its
    security policy names by their hashes, and load nothing.

    Args:
        package: the package whose folder `templates` holds the files.
        name: name of the template and of the style sheet, without their endings.
        content: values for the template.
        style: name of another page's style sheet, to use instead.
        scripts: names of scripts, the package's own or the kit's, run in this order at the end.
        asks: whether the scripts may ask the server that the page came from.
    """
    home = package or ""
    sources = [_asset(home, script) for script in scripts]
    template = _environment(home).get_template(f"{name}.html.j2")
    page_style = _asset(_KIT, "page.css") + _asset(home, f"{style or name}.css")
    return template.render(
        **content,
        page_style=page_style,
        page_asks=asks,
        page_scripts=sources,
        page_hashes=[_sha256(source) for source in sources],
    )


@cache  # a run writes the same page again and again
def _environment(home: str) -> jinja2.Environment:
    # Imported at its first use, so that the packages with pages stay quick to import.
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.ChoiceLoader(
            [jinja2.PackageLoader(home), jinja2.PackageLoader(_KIT)]
        ),
        autoescape=True,
        finalize=_shown,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    cast("dict[str, Any]", environment.filters).update(_FILTERS)
    cast("dict[str, Any]", environment.globals)["svg"] = svg
    return environment


@lru_cache(maxsize=8)
def text_template(text: str, **filters: Callable[..., object]) -> jinja2.Template:
    """Parse a template of a text that is not a page: nothing is escaped, and a missing name fails.

    Args:
        text: the template's text.
        filters: filters by their names in the template.
    """
    import jinja2

    environment = jinja2.Environment(  # noqa: S701  # no page
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    cast("dict[str, Any]", environment.filters).update(filters)
    return environment.from_string(text)


def inert_json(value: object) -> Markup:
    """Write JSON that stays data in a page, whatever its strings hold; they are made visible.

    Everything but ASCII is escaped, and so are <, > and &: no string can end the script element,
    open a comment, or hold a line separator. NaN and infinities become null, for lack of a JSON
    form.
    """
    text = json.dumps(
        _plain(value), ensure_ascii=True, allow_nan=False, separators=(",", ":")
    )
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)  # noqa: S704  # escaped above


def _readings(charts: Sequence[Chart]) -> Markup:
    """Return the values that a pointer over the charts can ask for, as data of the page."""
    return inert_json({chart.key: readings(chart) for chart in charts})


def _unbroken(text: str) -> str:
    """Keep a number and its per cent sign on one line."""
    return _PERCENT.sub("\N{NO-BREAK SPACE}%", text)


_FILTERS = {
    "visible": visible, "unbroken": _unbroken, "written": written, "bounds": bounds,
    "readings": _readings,
}  # fmt: skip


def _plain(value: object) -> object:
    if isinstance(value, dict):
        items = cast("dict[str, object]", value).items()
        return {key: _plain(item) for key, item in items}
    if isinstance(value, list):
        return [_plain(item) for item in cast("list[object]", value)]
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _shown(value: object) -> object:
    """Make the characters of a text visible; markup was made of such texts already."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return visible(value)
    return value


def _asset(package: str, name: str) -> Markup:
    """Read a file of the package or of the kit, to be written into the page as it is."""
    places = (files(home) / "templates" / name for home in (package, _KIT))
    place = next(place for place in places if place.is_file())
    text = place.read_text(encoding="utf-8")
    return Markup(text)  # noqa: S704  # ours


def _sha256(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def write_plain_page(report: Report, path: Path, leads: Leads | None = None) -> None:
    """Write a report as a page of its summary, charts and tables; equal reports give equal bytes.

    Args:
        report: the report.
        path: the page.
        leads: ways from bars and tables to the samples behind them.

    Raises:
        OSError: the page cannot be written.
    """
    tables = [table for table in report.tables() if table.rows]
    drawn = [bars for bars in report.drawn() if bars.bars]
    if leads is not None:
        tables = [leads.table(table) for table in tables]
        drawn = [leads.bars(bars) for bars in drawn]
    content = {"report": report, "tables": tables, "drawn": drawn, "leads": leads}
    text = render_page(_KIT, "plain", content)
    write_text(path, text)
