"""A page that needs no other file and no network, made of a package's own templates."""

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
from typing import TYPE_CHECKING, Any, Final, cast

from markupsafe import Markup

from rubric_core.files import write_text
from rubric_judge.page.charts import Chart, svg
from rubric_judge.page.tables import Report, bounds, written

if TYPE_CHECKING:
    import jinja2

_UNSEEN: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)
_MARK: Final = "[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff]"
_STACKED: Final = re.compile(f"({_MARK}{{3}}){_MARK}+")
"""More marks over one letter than any language writes; they would cover the lines around."""


def visible(text: str) -> str:
    """Return a text with every control, bidirectional and surrogate character by its number.

    Letters of all scripts stay as they are. Marks beyond the third over one letter are left out.
    """
    return _STACKED.sub(r"\1", _UNSEEN.sub(_named, text.replace("\r\n", "\n")))


def shortened(text: str, limit: int, *, where: str) -> str:
    """Cut a text, made visible, and say how much is left out and where it lies.

    Args:
        text: of a model.
        limit: most characters.
        where: holds the whole text, for the note.
    """
    if len(text) <= limit:
        return visible(text)
    left = len(text) - limit
    return f"{visible(text[:limit])} […{left:,} more characters in {where}]"


def _named(match: re.Match[str]) -> str:
    return f"[U+{ord(match[0]):04X}]"


_KIT: Final = __package__ or ""


def render_page(
    package: str | None,
    name: str,
    content: Mapping[str, object],
    *,
    style: str = "",
    scripts: Sequence[str] = (),
    asks: bool = False,
) -> str:
    """Render a template that extends `frame.html.j2`, with its style and its scripts inside.

    Charts, tables and the rest of the furniture are macros of `kit.html.j2`; `page.css` is the
    look of all pages, to which the page's style sheet adds what is its own.

    Every text is escaped and made visible as it is written. The page may run the scripts that are
    named here, which its security policy knows by their hashes, and load nothing.

    Args:
        package: whose folder `templates` holds the files.
        name: of the template, and of the style sheet, without their ends.
        content: what the template is given.
        style: name of another page's style sheet, to take instead.
        scripts: names of scripts, the package's own or the kit's, run in this order at the end.
        asks: whether the scripts may ask the server that the page came from.
    """
    home = package or ""
    sources = [_asset(home, script) for script in scripts]
    return (
        _environment(home)
        .get_template(f"{name}.html.j2")
        .render(
            **content,
            page_style=_asset(_KIT, "page.css") + _asset(home, f"{style or name}.css"),
            page_asks=asks,
            page_scripts=sources,
            page_hashes=[_sha256(source) for source in sources],
        )
    )


@cache  # a run writes the same page again and again
def _environment(home: str) -> jinja2.Environment:
    # Loaded at its first use: the packages with pages stay quick to import.
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
    """Read a template of a text that is no page: nothing is escaped, and what is missing an error.

    Args:
        text: of the template.
        filters: by their names in it.
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
    """Write JSON that is data in a page whatever its strings hold; they are made visible.

    All but ASCII is escaped, and so are <, > and &: no string can end the script element, open a
    comment, or hold a line separator. NaN and infinities become null, which JSON has a word for.
    """
    text = json.dumps(
        _plain(value), ensure_ascii=True, allow_nan=False, separators=(",", ":")
    )
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)  # noqa: S704  # escaped above


def _readings(charts: Sequence[Chart]) -> Markup:
    """Return the values that a pointer over the charts can ask for, as data of the page."""
    return inert_json({chart.key: chart.readings() for chart in charts})


_FILTERS: Final = {
    "visible": visible, "written": written, "bounds": bounds, "readings": _readings,
}  # fmt: skip


def _plain(value: object) -> object:
    if isinstance(value, dict):
        return {
            key: _plain(item) for key, item in cast("dict[str, object]", value).items()
        }
    if isinstance(value, list):
        return [_plain(item) for item in cast("list[object]", value)]
    if isinstance(value, str):
        return visible(value)
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _shown(value: object) -> object:
    """Make the characters of a text visible; what is markup already was made of such texts."""
    return (
        visible(value)
        if isinstance(value, str) and not isinstance(value, Markup)
        else value
    )


def _asset(package: str, name: str) -> Markup:
    """A file of the package's own or of the kit, written into the page as it is."""
    traversables = (files(home) / "templates" / name for home in (package, _KIT))
    text = next(path for path in traversables if path.is_file()).read_text(
        encoding="utf-8"
    )
    return Markup(text)  # noqa: S704  # ours


def _sha256(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def write_plain_page(report: Report, path: Path) -> None:
    """Write a report as a page of its summary, charts and tables; the same gives the same bytes.

    Raises:
        OSError: the page cannot be written.
    """
    content = {
        "report": report,
        "tables": [table for table in report.tables() if table.rows],
    }
    text = render_page(_KIT, "plain", content)
    write_text(path, text)
