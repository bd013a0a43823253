"""A page that needs no other file and no network, made of a package's own templates."""

from __future__ import annotations

import base64
import hashlib
import json
import math
from importlib.resources import files
from typing import TYPE_CHECKING, Any, cast

from markupsafe import Markup

from rubric_judge.page.visible import visible

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


def render_page(
    package: str,
    template: str,
    content: Mapping[str, object],
    *,
    style: str,
    scripts: Sequence[str],
    filters: Mapping[str, Callable[..., object]] | None = None,
) -> str:
    """Render a template that extends `frame.html.j2`, with its style and its scripts inside.

    Every text is escaped and made visible as it is written. The page may run the scripts that are
    named here, which its security policy knows by their hashes, and load nothing.

    Args:
        package: whose folder `templates` holds the files.
        template: name of the template.
        content: what the template is given.
        style: name of a style sheet.
        scripts: names of scripts, run in this order at the end of the page.
        filters: filters of the template, besides `visible`.
    """
    # Loaded at its first use: the packages with pages stay quick to import.
    from jinja2 import (
        ChoiceLoader,
        Environment,
        PackageLoader,
        StrictUndefined,
    )

    environment = Environment(
        loader=ChoiceLoader([PackageLoader(package), PackageLoader(__package__ or "")]),
        autoescape=True,
        finalize=_shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    cast("dict[str, Any]", environment.filters).update({"visible": visible, **(filters or {})})
    sources = [_asset(package, name) for name in scripts]
    return environment.get_template(template).render(
        **content,
        page_style=_asset(package, style),
        page_scripts=sources,
        page_hashes=[_sha256(source) for source in sources],
    )


def inert_json(value: object) -> Markup:
    """Write JSON that is data in a page whatever its strings hold; they are made visible.

    All but ASCII is escaped, and so are <, > and &: no string can end the script element, open a
    comment, or hold a line separator. NaN and infinities become null, which JSON has a word for.
    """
    text = json.dumps(_plain(value), ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)  # noqa: S704  # escaped above


def _plain(value: object) -> object:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in cast("dict[str, object]", value).items()}
    if isinstance(value, list):
        return [_plain(item) for item in cast("list[object]", value)]
    if isinstance(value, str):
        return visible(value)
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _shown(value: object) -> object:
    """Make the characters of a text visible; what is markup already was made of such texts."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _asset(package: str, name: str) -> Markup:
    """A file of the package's own, written into the page as it is."""
    text = (files(package) / "templates" / name).read_text(encoding="utf-8")
    return Markup(text)  # noqa: S704  # ours


def _sha256(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
