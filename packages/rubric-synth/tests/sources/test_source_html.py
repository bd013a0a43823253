from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from rubric_synth.sources.cleaning.markup import article_text, without_tags

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_PAGE = """<!doctype html><html><head><title>Tides &amp; coasts</title>
<style>p {color: red}</style><script>var tracked = 1;</script></head><body>
<header><a href="/">Home</a></header>
<nav><ul><li><a href="/a">Alpha page</a></li><li><a href="/b">Beta page</a></li></ul></nav>
<div class="cookie-banner">We value your privacy.</div>
<div class="content"><h1>How tides arise</h1>
<p>The <em>moon</em> raises a <a href="https://x.org/bulge">bulge</a> of water, and CO<sub>2</sub>
has nothing to do with it.</p>
<!-- a comment -->
<table><tr><th>Tide</th><th>Metres</th></tr><tr><td>Spring</td><td>4</td></tr></table>
<pre><code>level = 3

flood = 4</code></pre>
<ul><li><a href="/1">One related thing</a></li><li><a href="/2">Another related thing</a></li>
<li><a href="/3">A third related thing</a></li></ul>
</div><footer>Copyright</footer></body></html>"""


def test_a_page_becomes_its_main_content_as_markdown(
    tmp_path: Path, read: Callable
) -> None:
    (tmp_path / "tides.html").write_text(_PAGE)
    (found,) = read(tmp_path / "tides.html")
    assert found.title == "Tides & coasts"
    assert found.text.startswith(
        "# How tides arise\n\nThe moon raises a bulge of water, and CO2 has"
    )
    assert "| Spring | 4" in found.text
    assert "level = 3\n\nflood = 4" in found.text
    for left_out in (
        "Home",
        "Alpha",
        "privacy",
        "tracked",
        "red",
        "comment",
        "third",
        "Copyright",
    ):
        assert left_out not in found.text


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("log<sub>10</sub>100", "log_(10)100"),
        ("x<sub>1</sub> and CO<sub>2</sub>", "x1 and CO2"),
        ('In 2019<sup class="footnote">3</sup>', "In 2019"),
        ('In 2019<sup role="doc-noteref">3</sup>', "In 2019"),
        ('In 2019<sup id="cite_ref-3">3</sup>', "In 2019"),
        ("12<sup class=big>3</sup>", "12^3"),
        ('12<abbr title="kilograms 13">kg</abbr>', "12kg"),
        ('12<span class="visually-hidden">99</span>34', "1234"),
        ("01&shy;2301", "01\ufffd2301"),
        ("pro&shy;gram", "program"),
        ("12<wbr>345", "12345"),
        ('12<span style="display:none">99</span>34', "1234"),
    ],
)
def test_a_number_is_what_a_reader_of_the_page_sees(
    written: str, text: str, tmp_path: Path, read: Callable
) -> None:
    (tmp_path / "a.html").write_text(f"<p>It has {written} of it.</p>")
    assert read(tmp_path / "a.html")[0].text == f"It has {text} of it."


def test_code_that_begins_a_list_item_is_no_code_without_an_end(
    tmp_path: Path, read: Callable
) -> None:
    items = "<li><pre>remove 1</pre></li><li>It is removed.</li>"
    links = "".join(f'<p><a href="p{n}.html#a(b(c))">Page {n}</a></p>' for n in "12")
    prose = '<p>It holds 10<sup>3</sup> of <a href="it.html">them</a>.</p>'
    (tmp_path / "a.html").write_text(f"<h1>T</h1><ol>{items}</ol>{prose}{links}")
    text = read(tmp_path / "a.html")[0].text
    assert "1. ```\n   remove 1\n   ```" in text
    assert text.endswith("It holds 10^3 of them.\n\nPage 1\n\nPage 2")


def test_a_link_of_a_picture_alone_has_no_text(tmp_path: Path, read: Callable) -> None:
    link = '<a href="node60.html#x"><img src="ref.png" alt="[*]"></a>'
    (tmp_path / "a.html").write_text(f"<p>See variables (p. {link}) for details.</p>")
    assert "node60" not in read(tmp_path / "a.html")[0].text


def test_a_formula_of_katex_is_read_once(tmp_path: Path, read: Callable) -> None:
    formula = "<math><msup><mn>10</mn><mn>6</mn></msup></math>"
    drawn = '<span class="katex-html" aria-hidden="true">10<span>6</span></span>'
    both = f'<span class="katex-mathml">{formula}</span>{drawn}'
    page = tmp_path / "tank.html"
    page.write_text(f'<p>It holds <span class="katex">{both}</span> litres.</p>')
    assert read(page)[0].text == "It holds 10^6 litres."
    alone = f'<span class="katex">{drawn.replace("10", "7")}</span>'
    page.write_text(f'<p>Of <span class="katex">{both}</span>, {alone} is.</p>')
    assert read(page)[0].text == "Of 10^6, 76 is."
    page.write_text('<p>It holds <span class="katex-html">x</span> litres.</p>')
    assert read(page)[0].text == "It holds x litres."


def test_the_main_part_of_a_page_is_enough_where_it_says_much(
    tmp_path: Path, read: Callable
) -> None:
    prose = (
        "<p>The moon raises a bulge of water on the near side of the planet.</p>" * 10
    )
    page = f"<body><p>Before.</p><main><h1>Tides</h1>{prose}</main><p>After.</p></body>"
    (tmp_path / "a.htm").write_text(page)
    (found,) = read(tmp_path / "a.htm")
    assert "Before" not in found.text
    assert "After" not in found.text
    assert found.title == "Tides"


def test_a_name_of_a_wrapper_does_not_make_its_content_a_menu(
    tmp_path: Path, read: Callable
) -> None:
    prose = (
        "<p>The moon raises a bulge of water on the near side of the planet.</p>" * 10
    )
    (tmp_path / "a.html").write_text(
        f'<body class="with-sidebar menu-left">{prose}</body>'
    )
    (found,) = read(tmp_path / "a.html")
    assert found.text.count("bulge") == 10


def test_a_page_is_decoded_as_it_declares(tmp_path: Path, read: Callable) -> None:
    page = '<head><meta charset="iso-8859-2"></head><p>Zażółć gęślą jaźń.</p>'
    (tmp_path / "a.html").write_bytes(page.encode("iso-8859-2"))
    (found,) = read(tmp_path / "a.html")
    assert found.text == "Zażółć gęślą jaźń."


@pytest.mark.parametrize(
    "charset", ["undefined", "idna", "hex", "utf-16", "no-such", "utf-7"]
)
def test_what_a_page_declares_need_not_be_true(
    tmp_path: Path, read: Callable, charset: str
) -> None:
    text = "The café on the pier is 20 °C warm, and the tide falls slowly. " * 4
    page = f'<head><meta charset="{charset}"></head><p>{text}</p>'
    (tmp_path / "a.html").write_bytes(page.encode("cp1252"))
    (found,) = read(tmp_path / "a.html")
    assert found.text == text.strip()


def test_pages_without_text_are_counted_with_their_reason(
    tmp_path: Path, reasons: Callable
) -> None:
    root = tmp_path / "in"
    root.mkdir()
    (root / "binary.html").write_bytes(b"<p>\0\1</p>")
    (root / "deep.html").write_text("<div>" * 200_000 + "deep")
    (root / "empty.html").write_text("")
    (root / "menu.html").write_text("<body><nav><a href=x>Home</a></nav></body>")
    (root / "script.html").write_text("<script>let a = 1;</script>")
    assert reasons(root) == {
        "in/binary.html": "binary",
        "in/deep.html": "conversion_failed",
        "in/empty.html": "empty",
        "in/menu.html": "empty",
        "in/script.html": "empty",
    }


def test_a_page_whose_tags_never_end_is_read_at_once(
    tmp_path: Path, read: Callable
) -> None:
    (tmp_path / "a.html").write_text(
        "<main>" * 300_000 + "<p>High water comes twice a day.</p>"
    )
    (found,) = read(tmp_path / "a.html", conversion_timeout_s=20)
    assert found.detail.endswith("as where tags lie too deep in each other")


def test_a_page_that_takes_too_long_costs_its_time_and_no_more(
    tmp_path: Path, read: Callable
) -> None:
    root = tmp_path / "in"
    root.mkdir()
    (root / "a.html").write_text("<p><b><i>" * 600_000)
    (root / "b.html").write_text("<p>High water comes twice a day.</p>")
    start = time.monotonic()
    slow, fine = read(root, conversion_timeout_s=4)
    assert time.monotonic() - start < 300
    assert slow.reason == "conversion_failed"
    assert slow.detail == "not read within the 4 s of collect.conversion_timeout_s"
    assert fine.text == "High water comes twice a day."


def test_links_in_running_text_leave_their_words() -> None:
    text = "See [the [big] bulge](https://x.org/a_(b)) and ![a picture](p.png) there."
    assert article_text(text) == "See the [big] bulge and  there."


def test_tags_and_entities_of_a_field_go_and_comparisons_stay() -> None:
    assert without_tags("<p>CO<sub>2</sub> &gt; 3</p><p>a < b and c > d</p>").split("\n") == [
        "", "", "CO2 > 3", "", "", "", "a < b and c > d", "", "",
    ]  # fmt: skip
