"""Turn the formulas of a page, written as LaTeX between dollars, into MathML; called by mkdocs.

Browsers draw MathML by themselves: no script, and no request to a third party.
"""

import html
import re
from typing import Final

from latex2mathml.converter import convert

# What pymdownx.arithmatex makes of `$…$` and of `$$…$$`.
INLINE: Final = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>', re.DOTALL)
BLOCK: Final = re.compile(r'<div class="arithmatex">\\\[(.*?)\\\]</div>', re.DOTALL)


def on_page_content(content: str, **_: object) -> str:
    """Return the page with its formulas drawn."""
    drawn = BLOCK.sub(lambda found: _drawn(found[1], display="block"), content)
    return INLINE.sub(lambda found: _drawn(found[1], display="inline"), drawn)


def _drawn(formula: str, *, display: str) -> str:
    return convert(html.unescape(formula).strip(), display=display)
