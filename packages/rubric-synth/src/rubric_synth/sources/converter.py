"""The process of `IsolatedReader`, which reads files for another: it may hang, crash or be killed.

A script of its own: it imports nothing of this package, so that it starts in a moment. One job
and one answer per line, as JSON, and the file that a job is about as an open descriptor. An answer
that takes too long ends the process.
"""

import contextlib
import json
import mmap
import os
import re
import resource
import signal
import socket
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, cast

_SELECTORS = tomllib.loads(
    Path(__file__).with_name("converter.toml").read_text("utf-8")
)
_NO_CONTENT: list[str] = _SELECTORS["no_content"]
_NO_CONTENT_BY_NAME: list[str] = _SELECTORS["no_content_by_name"]
_DRAWN_AGAIN: list[str] = _SELECTORS["drawn_again"]
_EMPHASIS: list[str] = _SELECTORS["emphasis"]
_UNSEEN = "(?:script|style|template|title)"
_LINE_END = re.compile(r"[ \t]*\r?\n[ \t]*")
_TAG = re.compile(r"<[^<>]*>")
_TITLE = re.compile(r"<title[^>]{0,200}>(.{0,2000}?)</title", re.DOTALL | re.IGNORECASE)
_DRAWN_ONCE = re.compile(
    r"""(<span\s{1,9}class=["']?katex["']?\s{0,9}>\s{0,9}<span\b[^<>]{0,99}\bclass=["']?)katex-html\b"""
)
"""The beginning of a formula that KaTeX drew alone, up to the class of a drawn one."""
_PICTURE_LINK = re.compile(
    r"<a\b[^<>]{0,2000}>\s{0,99}(?:<img\b[^<>]{0,2000}>\s{0,99}){1,5}</a\s{0,9}>",
    re.IGNORECASE,
)
"""A link of pictures alone; without them its address would be its text."""
_MIN_MAIN_CHARS = 400
_STATE_FILE = "state.json"  # this file and the next are written by `datasets`
_SPLITS_FILE = "dataset_dict.json"
_WRONG_PASSWORD = 4  # error code of PDFium
_BROKEN = {"refused": "broken_pdf"}


def main() -> None:
    """Answer jobs until there are no more."""
    seconds, most_memory, files = map(int, sys.argv[1:])
    # Without the files that are mapped: a data set may be larger than memory.
    with contextlib.suppress(OSError, ValueError):  # not every system limits memory
        hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
        resource.setrlimit(resource.RLIMIT_DATA, (most_memory, hard))
    # Output that a library prints must not be taken for an answer.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    descriptors = socket.socket(fileno=files)
    for line in sys.stdin.buffer:
        signal.alarm(seconds)
        job = json.loads(line)
        handle = -1
        if job["with_file"]:
            _, (handle,), *_ = socket.recv_fds(descriptors, 1, 1)
        for answer in _answers(job, handle):
            signal.alarm(0)  # whoever reads the answers may take time
            answers.write(json.dumps(answer, default=lambda _: {}).encode() + b"\n")
            answers.flush()
            signal.alarm(seconds)
        signal.alarm(0)
        if handle >= 0:
            os.close(handle)


def _answers(job: dict[str, Any], handle: int) -> Iterator[dict[str, Any]]:
    """Do a job; an exception that any library raises over a file becomes an answer here."""
    try:
        match job["kind"]:
            case "html":
                yield _html(job["page"])
            case "pdf":
                yield _pdf(f"/dev/fd/{handle}", job["most"])
            case "notebook":
                yield _notebook(handle)
            case "parquet":
                yield from _parquet(handle, job)
            case _:
                yield from _dataset(job)
    except MemoryError:
        yield {"refused": "conversion_failed", "detail": "out of memory"}
    except Exception as error:  # noqa: BLE001 - see the docstring
        yield {"refused": "conversion_failed", "detail": type(error).__name__}


def _html(page: str) -> dict[str, Any]:
    """Return the main content of a page as Markdown, and its title."""
    title = _TITLE.search(page[:200_000])
    content = ""
    for name in ("main", "article"):
        places = list(_elements(page, name))
        if len(places) == 1:
            start, end = places[0]
            content = _markdown(page[start:end])
        if len(content) >= _MIN_MAIN_CHARS:
            break
    else:
        content = _markdown(page)
    answer = {
        "markdown": content,
        "title": title[1] if title else "",
        "letters": 0,
    }
    if content.strip():
        return answer
    everything = _converted(page, [], clean=False)
    if not everything.strip():
        # Not a page of menus: either there is no text, or the library lost it.
        answer["letters"] = _letters(page)
    return answer


def _elements(page: str, name: str) -> Iterator[tuple[int, int]]:
    """Yield the places where elements begin and end; an element without an end is left out."""
    opening = re.compile(rf"<{name}[\s>]", re.IGNORECASE)
    closing = re.compile(rf"</{name}\s*>", re.IGNORECASE)
    start = opening.search(page)
    while start is not None:
        end = closing.search(page, start.end())
        if end is None:
            return
        yield start.start(), end.end()
        start = opening.search(page, end.end())


def _letters(page: str) -> int:
    """Count the letters that a reader would see, however deep they lie."""
    place = 0
    count = 0
    unseen = [*_elements(page, _UNSEEN), (len(page), len(page))]
    for start, end in unseen:
        text = _TAG.sub("", page[place:start])
        count += sum(map(str.isalpha, text))
        place = end
    return count


def _markdown(page: str) -> str:
    """Convert HTML; names of menus are ignored where little is left without them."""
    strict = _converted(page, [*_NO_CONTENT, *_NO_CONTENT_BY_NAME])
    if len(strict) >= _MIN_MAIN_CHARS:
        return strict
    loose = _converted(page, _NO_CONTENT)
    if len(loose) > _MIN_MAIN_CHARS:
        return loose
    return strict


def _converted(
    page: str,
    left_out: list[str],
    *,
    clean: bool = True,
) -> str:
    import html_to_markdown  # a process reads either HTML or PDF

    if "katex-mathml" in page:
        left_out = [*left_out, *_DRAWN_AGAIN]
        page = _DRAWN_ONCE.sub(r"\1", page)
    page = _PICTURE_LINK.sub(" ", page)
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
        strip_tags=_EMPHASIS,  # within a word, marks of emphasis might be taken for signs: 1*s*
        sub_symbol="<sub>",
        sup_symbol="<sup>",
    )
    result = html_to_markdown.convert(_unwrapped(page), options)
    return result.content or ""


def _unwrapped(page: str) -> str:
    """Join the lines of a page, as its readers see them; else "2016. If" might begin a list."""
    pieces: list[str] = []
    place = 0
    written = [*_elements(page, "(?:pre|textarea)"), (len(page), len(page))]
    for start, end in written:
        if start < place:
            continue
        joined = _LINE_END.sub(" ", page[place:start])
        pieces += (joined, page[start:end])
        place = end
    return "".join(pieces)


def _pdf(path: str, most: int) -> dict[str, Any]:
    """Return the pieces of the lines of each page, and the headings that the file names."""
    import pypdfium2

    pdf_page: Any = import_module(
        "rubric_synth.sources.cleaning.pdf_page"
    )  # loads nothing but tables
    fonts = pdf_page.Fonts()

    try:
        document: Any = pypdfium2.PdfDocument(path)
        count = len(document)
    except pypdfium2.PdfiumError as error:
        # The library's last error may be that of an earlier file.
        if getattr(error, "err_code", None) == _WRONG_PASSWORD:
            with (
                open(path, "rb") as file,  # noqa: PTH123 - no Path needed
                mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as data,
            ):
                if data.find(b"/Encrypt") >= 0:
                    return {"refused": "encrypted", "detail": "needs a password"}
        return _BROKEN
    pages: list[list[tuple[str, float, float, float, float, bool]]] = []
    chars = broken = 0
    for index in range(count):
        try:
            page = document[index]
            pages.append(pdf_page.pieces(page.get_textpage(), fonts))
            page.close()
        except pypdfium2.PdfiumError:
            broken += 1
            continue
        chars += sum(len(line[0]) for line in pages[-1])
        if chars > most:
            detail = f"{chars} characters to page {index + 1}, above the {most} that "
            detail += "collect.max_document_bytes allows"
            return {"refused": "too_long", "detail": detail}
    if broken == count:
        return _BROKEN | {"detail": f"{broken} broken pages"}
    characters = fonts.table()
    readable = [
        [(_text(text, characters), *place) for text, *place in page] for page in pages
    ]
    outline = [str(mark.get_title()) for mark in document.get_toc(max_depth=6)]
    title = document.get_metadata_dict().get("Title", "")
    return {
        "pages": readable,
        "outline": outline[:5000],
        "title": str(title),
    }


def _text(raw: str, characters: dict[int, str]) -> str:
    """Return a text of PDFium, which gives characters beyond 16 bits in two halves."""
    encoded = raw.translate(characters).encode("utf-16", "surrogatepass")
    return encoded.decode("utf-16", "replace")


def _notebook(handle: int) -> dict[str, Any]:
    """Return the text and the code of a Jupyter notebook as Markdown, without its outputs."""
    with os.fdopen(os.dup(handle), "rb") as file:
        try:
            content: dict[str, Any] = json.load(file)
            # Before version 4 of the format, cells lie in worksheets.
            sheets = (content, *content.get("worksheets", ()))
            parts = [
                _cell(cell, content)
                for sheet in sheets
                for cell in sheet.get("cells", ())
            ]
        except (
            ValueError,
            RecursionError,
            LookupError,
            TypeError,
            AttributeError,
        ) as error:
            detail = f"not readable as a notebook ({type(error).__name__})"
            return {"refused": "broken_record", "detail": detail}
    return {"markdown": "\n\n".join(filter(None, parts))}


def _cell(cell: dict[str, Any], notebook: dict[str, Any]) -> str:
    """Return a cell as Markdown; "" for one without text."""
    source = cell.get("source", cell.get("input", ""))
    text = "".join(source).strip()
    match cell["cell_type"]:
        case "markdown":
            return text
        case "heading":
            return f"{'#' * int(cell['level'])} {text}"
        case "code" if text:
            metadata = notebook.get("metadata", {})
            kernel = metadata.get("kernelspec", {})
            language = kernel.get("language", "")
            return f"```{language}\n{text}\n```"
        case _:
            return ""


def _parquet(handle: int, job: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the rows of a table, one by one, and at the end that it is done, or refused."""
    pyarrow: Any = import_module("pyarrow")
    pyarrow.set_memory_pool(
        pyarrow.system_memory_pool()
    )  # others ask for more than they use
    bounds: Any = import_module("rubric_core.data.parquet")
    expansion: Any = import_module("rubric_core.expansion")
    with os.fdopen(os.dup(handle), "rb") as file:
        try:
            columns = tuple(job["columns"])
            for row in bounds.bounded_rows(
                file, columns=columns, most_row_bytes=job["most"]
            ):
                is_long = isinstance(row, bounds.LongRow)
                yield {"bytes": row.size_bytes} if is_long else {"row": row}
            yield {"done": True}
        except expansion.TooLargeError as error:
            yield {"refused": "too_long", "detail": str(error)}
        except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                yield {"refused": "unreadable", "detail": os.strerror(error.errno)}
            else:
                detail = f"not readable as Parquet ({type(error).__name__})"
                yield {"refused": "broken_record", "detail": detail}


def _dataset(job: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the names of the splits of a data set that `datasets` opens, or the rows of one.

    Its builders take a whole row group into memory, whatever its texts unpack to. It raises errors
    of many kinds, its file systems' among them: this is the boundary.
    """
    try:
        splits = _splits(job["path"])
    except Exception as error:  # noqa: BLE001 - see the docstring
        yield {"error": _described(error)}
        return
    if "split" not in job:
        yield {"splits": list(splits)}
        return
    try:
        for row in _read_columns(splits[job["split"]], frozenset(job["columns"])):
            texts = _texts(list(row.values()))
            size = sum(map(len, texts))
            if size > job["most"]:
                yield {"bytes": size}
            else:
                yield {"row": dict(row)}
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - see the docstring
        yield {"refused": "unreadable", "detail": type(error).__name__}
    else:
        yield {"done": True}


def _texts(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    texts: list[str] = []
    if isinstance(value, list):
        for part in cast("list[object]", value):
            texts += _texts(part)
    return texts


@cache
def _splits(path: str) -> Mapping[str, Any]:
    """Open a data set without reading its rows, once.

    In a folder that `save_to_disk` wrote, splits without a row are included, though `datasets`
    cannot open them.
    """
    datasets: Any = import_module("datasets")
    folder = Path(path)
    if (folder / _SPLITS_FILE).is_file():
        saved = json.loads((folder / _SPLITS_FILE).read_bytes())
        names: list[str] = saved["splits"]
        return {name: _saved_split(folder / name, datasets)[1] for name in names}
    if (folder / _STATE_FILE).is_file():
        return dict([_saved_split(folder, datasets)])
    loaded: Any = datasets.load_dataset(path, streaming=True)
    if isinstance(loaded, dict):
        splits = cast("dict[object, Any]", loaded)
        return {str(name): rows for name, rows in splits.items()}
    return {str(loaded.split or "all"): loaded}


def _saved_split(folder: Path, datasets: Any) -> tuple[str, Any]:
    """Return the name of a split and its table; None for a split without rows."""
    state: dict[str, Any] = json.loads((folder / _STATE_FILE).read_bytes())
    rows: Any = None
    if state["_data_files"]:
        rows = datasets.load_from_disk(str(folder))
    name = state.get("_split") or "all"
    return str(name), rows


def _described(error: Exception) -> str:
    """Describe an error without words of the data, which a parser's message may hold."""
    package = type(error).__module__.partition(".")[0]
    name = type(error).__name__
    if package in {"datasets", "huggingface_hub"} or type(error) in {
        FileNotFoundError,
        ValueError,
    }:
        return f"{name}: {error}"
    return name


def _read_columns(table: Any, columns: frozenset[str]) -> Iterable[dict[str, object]]:
    """Return the rows with the columns that are read: pictures and sound stay unread."""
    if table is None:
        return ()
    if table.column_names is None:
        return cast("Iterable[dict[str, object]]", table)
    known = [column for column in table.column_names if column in columns]
    if known:
        return cast("Iterable[dict[str, object]]", table.select_columns(known))
    # The library leaves no rows without columns, and they are to be counted.
    count = getattr(table, "num_rows", None)
    if count is not None:
        return ({} for _ in range(count))
    return ({} for _ in table)


if __name__ == "__main__":
    main()
