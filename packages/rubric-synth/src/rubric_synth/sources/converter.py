"""The process that reads HTML and PDF files for `conversion`: it may hang, crash or be killed.

A script of its own: it imports nothing of this package, so that it starts in a moment. One job
and one answer a line, as JSON. A job that takes too long ends the process.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import re
import resource
import signal
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_NO_CONTENT = [
    "nav", "aside", "footer", "form", "dialog", "script", "style", "noscript", "template", "iframe",
    "button", "select", "[hidden]", "[role=navigation]", "[role=banner]", "[role=contentinfo]",
    "[role=search]", "[role=complementary]", "[role=dialog]",
]  # fmt: skip
_NO_CONTENT_BY_NAME = [
    "[class*=cookie]", "[id*=cookie]", "[class*=breadcrumb]", "[class*=sidebar]", "[id*=sidebar]",
    "[class*=navbar]", "[class*=social]", "[class*=share-]", "[class*=newsletter]",
    "[class*=related]", "[class*=footer]", "[id=footer]", "[id=header]", "[class*=menu]",
    "[id=comments]", "[class*=headerlink]", "[class*=skip-link]", "[class*=edit-link]",
    "[class*=sr-only]", "[class*=advert]", "[class*=toctree]", "[id=toc]", "[class*=md-source]",
]  # fmt: skip
_MAIN = (re.compile(r"<main[\s>]", re.IGNORECASE), re.compile(r"</main\s*>", re.IGNORECASE))
_ARTICLE = (
    re.compile(r"<article[\s>]", re.IGNORECASE),
    re.compile(r"</article\s*>", re.IGNORECASE),
)
_UNSEEN = (
    re.compile(r"<(?:script|style|template|title)[\s>]", re.IGNORECASE),
    re.compile(r"</(?:script|style|template|title)\s*>", re.IGNORECASE),
)
_TAG = re.compile(r"<[^<>]*>")
_TITLE = re.compile(r"<title[^>]{0,200}>(.{0,2000}?)</title", re.DOTALL | re.IGNORECASE)
_MIN_MAIN_CHARS = 400
_WRONG_PASSWORD = 4  # of PDFium
_BROKEN = {"refused": "broken_pdf"}


def main() -> None:
    """Answer jobs until there are no more."""
    seconds, most_memory = int(sys.argv[1]), int(sys.argv[2])
    with contextlib.suppress(OSError, ValueError):  # not every system limits memory
        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        resource.setrlimit(resource.RLIMIT_AS, (most_memory, hard))
    # What a library prints must not be taken for an answer.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    for line in sys.stdin.buffer:
        signal.alarm(seconds)
        answer = _answer(json.loads(line))
        signal.alarm(0)
        answers.write(json.dumps(answer).encode() + b"\n")
        answers.flush()


def _answer(job: dict[str, Any]) -> dict[str, Any]:
    """Do a job; what any library raises over a file becomes an answer here."""
    try:
        return _pdf(job["pdf"], job["most"]) if "pdf" in job else _html(job["html"])
    except MemoryError:
        return {"refused": "conversion_failed", "detail": "out of memory"}
    except Exception as error:  # noqa: BLE001 - see the docstring
        return {"refused": "conversion_failed", "detail": type(error).__name__}


def _html(page: str) -> dict[str, Any]:
    """Return the main content of a page as Markdown, and its title."""
    title = _TITLE.search(page[:200_000])
    content = ""
    for marks in (_MAIN, _ARTICLE):
        parts = [page[start:end] for start, end in _elements(page, *marks)]
        if len(parts) == 1:
            content = _markdown(parts[0])
        if len(content) >= _MIN_MAIN_CHARS:
            break
    else:
        content = _markdown(page)
    answer = {"markdown": content, "title": title[1] if title else "", "letters": 0}
    if not content.strip() and not _converted(page, [], clean=False).strip():
        # Not a page of menus: either there is no text, or the library lost it.
        answer["letters"] = _letters(page)
    return answer


def _elements(
    page: str, opening: re.Pattern[str], closing: re.Pattern[str]
) -> Iterator[tuple[int, int]]:
    """Yield where elements begin and end; one without an end is none."""
    start = opening.search(page)
    while start is not None:
        end = closing.search(page, start.end())
        if end is None:
            return
        yield start.start(), end.end()
        start = opening.search(page, end.end())


def _letters(page: str) -> int:
    """Count the letters that a reader would see, however deep they lie."""
    place = count = 0
    for start, end in (*_elements(page, *_UNSEEN), (len(page), len(page))):
        count += sum(map(str.isalpha, _TAG.sub("", page[place:start])))
        place = end
    return count


def _markdown(page: str) -> str:
    """Convert HTML; where little is left without what names call a menu, names are no guide."""
    strict = _converted(page, [*_NO_CONTENT, *_NO_CONTENT_BY_NAME])
    if len(strict) >= _MIN_MAIN_CHARS:
        return strict
    loose = _converted(page, _NO_CONTENT)
    return loose if len(loose) > _MIN_MAIN_CHARS else strict


def _converted(page: str, left_out: list[str], *, clean: bool = True) -> str:
    import html_to_markdown  # noqa: PLC0415 - a process reads either HTML or PDF

    cleanup = html_to_markdown.PreprocessingOptions(
        enabled=clean,
        preset=html_to_markdown.PreprocessingPreset.STANDARD,
        remove_navigation=clean,
        remove_forms=clean,
    )
    options = html_to_markdown.ConversionOptions(
        preprocessing=cleanup,
        exclude_selectors=left_out,
        heading_style=html_to_markdown.HeadingStyle.ATX,
        extract_metadata=False,
        skip_images=True,
        autolinks=False,
        sub_symbol="",
        sup_symbol="",
    )
    return html_to_markdown.convert(page, options).content or ""


def _pdf(path: str, most: int) -> dict[str, Any]:
    """Return the lines of each page, and the headings that the file names."""
    import pypdfium2  # noqa: PLC0415 - as above

    try:
        # The library opens a file by a name in UTF-8 only.
        document = pypdfium2.PdfDocument(path if _is_text(path) else open(path, "rb"))  # noqa: PTH123, SIM115 - as long as the document
        count = len(document)
    except pypdfium2.PdfiumError as error:
        # The library's last error may be that of an earlier file.
        if getattr(error, "err_code", None) == _WRONG_PASSWORD and _names_encryption(path):
            return {"refused": "encrypted", "detail": "needs a password"}
        return _BROKEN
    pages: list[list[tuple[str, float, float, float]]] = []
    chars = broken = 0
    for index in range(count):
        try:
            page = document[index]
            pages.append(_lines(page.get_textpage()))
            page.close()
        except pypdfium2.PdfiumError:
            broken += 1
            continue
        chars += sum(len(line[0]) for line in pages[-1])
        if chars > most:
            return {"refused": "too_long", "detail": f"{chars} characters to page {index + 1}"}
    if broken == count:
        return _BROKEN | {"detail": f"{broken} broken pages"}
    return {"pages": pages, "outline": _outline(document), "title": _pdf_title(document)}


def _is_text(name: str) -> bool:
    return name == name.encode(errors="replace").decode()


def _names_encryption(path: str) -> bool:
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:  # noqa: PTH123 - no Path needed
        return content.find(b"/Encrypt") >= 0


def _lines(textpage: Any) -> list[tuple[str, float, float, float]]:  # noqa: ANN401 - no types
    """Return text, height of letters, top and left of each line of a page."""
    text = textpage.get_text_range().replace("\ufffe", "\x02")
    placed = len(text) == textpage.count_chars()  # else letters and places do not match
    lines: list[tuple[str, float, float, float]] = []
    for number, match in enumerate(re.finditer(r"[^\r\n]+", text)):
        bare = match[0].strip()
        if bare and placed:
            first = match.start() + len(match[0]) - len(match[0].lstrip())
            left, bottom, _, top = textpage.get_charbox(first, loose=True)
            lines.append((bare, round(top - bottom, 1), round(top, 1), round(left, 1)))
        elif bare:
            lines.append((bare, 10.0, 1000.0 - 12.0 * number, 0.0))
    return lines


def _outline(document: Any) -> list[str]:  # noqa: ANN401 - no types
    return [str(mark.get_title()) for mark in document.get_toc(max_depth=6)][:5000]


def _pdf_title(document: Any) -> str:  # noqa: ANN401 - no types
    return str(document.get_metadata_dict().get("Title", ""))


if __name__ == "__main__":
    main()
