"""The page on what counts as the answer: its table is the data, and its code runs."""

import html
import re
from pathlib import Path

from rubric_core import KNOWN_TAGS
from rubric_judge.adapters.options import Options

ROOT = Path(__file__).resolve().parents[1]
TEXT = (ROOT / "docs/answer.md").read_text("utf-8")
LINKING = (
    *("README.md", "docs/adapters.md", "docs/tutorials/trl.md", "docs/tutorials/verl.md"),
    *("docs/judge/serve.md", "docs/judge/label.md", "docs/judge/ledger.md"),
    *("docs/troubleshooting.md", "docs/glossary.md", "docs/core.md"),
)  # fmt: skip


def test_the_table_is_that_of_the_known_families() -> None:
    section = TEXT.partition("## Families of marks")[2].partition("\n## ")[0]
    section = re.sub(
        r"</?code>", "`", section
    )  # of marks with a bar, which would end a cell
    rows = re.findall(r"^\| `(.+?)` \| `(.+?)` \| (\w+) \|$", section, re.MULTILINE)
    shown = [tuple(map(html.unescape, row)) for row in rows]

    assert shown == [(tags.open, tags.close, tags.counts) for tags in KNOWN_TAGS]


def test_the_code_of_the_page_runs() -> None:
    (code,) = re.findall(r"^```python\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)

    exec(code, {})  # noqa: S102  # the page's own code is the thing under test


def test_the_page_tells_every_value_of_the_setting() -> None:
    section = TEXT.partition("## The setting")[2]
    words = re.findall(r"^\| `(\w+)` \| ", section, re.MULTILINE)

    assert words[:3] == ["cut", "opened", "kept"]
    assert all(Options(judge="j", thoughts=word).thoughts == word for word in words[:3])  # pyright: ignore[reportArgumentType]


def test_the_pages_of_the_doors_link_to_it() -> None:
    assert [
        name for name in LINKING if "answer.md" not in (ROOT / name).read_text("utf-8")
    ] == []
