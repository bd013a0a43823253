"""Prompts for the model: a document as numbered paragraphs, and the prompt files, filled in.

One opening with the document for all three stages, then the task: a server's prefix cache reads the
document once for the three questions about it. A long document is shown in part: the sections that
say most, in their order, gaps marked. A passage is cut out of the same paragraphs.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from itertools import islice, pairwise
from typing import Any, NamedTuple

from rubric_core import CriterionKind, DocumentAnalysis
from rubric_core.files import text_sha256
from rubric_judge.judges.llm.prompt import fenced
from rubric_synth import language, tables
from rubric_synth.config import LLMConfig, TaskType
from rubric_synth.document import Document
from rubric_synth.stages import stages

GAP = "[…]"
"""Mark in a passage for paragraphs between its first and last that were not shown."""

_BLANK = re.compile(r"\n[^\S\n]*\n\s*")
_CODE_FENCE = re.compile(
    r"^\s{0,3}(?:(?:[-*+]|\d{1,9}[.)])[ \t]+){0,3}(```|~~~)", re.MULTILINE
)
_HEADING = re.compile(r"#{1,6}\s[^\n]{1,200}")
_BACK_MATTER = tables.phrase("back_matter", re.IGNORECASE | re.MULTILINE)
_SPACE = re.compile(r"\s+")
_WORD = re.compile(r"[^\W\d_]{3,}")
_LONGEST = 4_000
"""Characters above which a paragraph, such as the page of a PDF, is cut."""
_LONG_SECTION = 5_000
"""Characters above which a section, such as a text without headings, is chosen in parts."""


class Paragraph(NamedTuple):
    """Place of a paragraph in the text."""

    start: int
    """Offset of its heading, where it has one."""
    body: int
    """Offset of its own first line."""
    end: int


@dataclass(frozen=True, slots=True)
class ShownText:
    """The paragraphs of a document that the model is shown, numbered from 1."""

    text: str
    """The whole document."""
    paragraphs: tuple[Paragraph, ...]
    """Paragraphs that are shown, in order."""
    omitted: tuple[int, ...]
    """Paragraphs left out before each shown one, and after the last."""

    def rendered(self) -> str:
        """Return the paragraphs with their numbers; gaps say how much is missing."""
        parts: list[str] = []
        for number, paragraph in enumerate(self.paragraphs, start=1):
            parts += _gap(self.omitted[number - 1])
            text = self.text[paragraph.start : paragraph.end]
            parts.append(f"[{number}] {text}")
        parts += _gap(self.omitted[-1])
        return "\n\n".join(parts)

    def passage(self, first: int, last: int) -> str:
        """Return the text from one shown paragraph to another; "" where there are none such."""
        if not 1 <= first <= last <= len(self.paragraphs):
            return ""
        parts: list[str] = []
        # Not from the heading: a title in the passage would look like a leak.
        start = self.paragraphs[first - 1].body
        for number in range(first, last):
            if self.omitted[number]:
                end = self.paragraphs[number - 1].end
                parts.append(self.text[start:end])
                start = self.paragraphs[number].start
        end = self.paragraphs[last - 1].end
        parts.append(self.text[start:end])
        return f"\n\n{GAP}\n\n".join(parts)


def shown_text(text: str, *, limit: int) -> ShownText:
    """Choose what the model is shown of a document.

    Args:
        text: the whole document.
        limit: most characters, numbers included.

    Returns:
        All paragraphs where they fit. Else those of the sections with the most weight of words for
        their length, where the weight of a word grows with how often the document uses it; the
        first paragraph, which says what the document is about, is among them.
    """
    remaining = _paragraphs(text)
    # More are not looked at: a text may hold nothing but line breaks.
    paragraphs = tuple(islice(remaining, 50_000))
    unread = sum(1 for _ in islice(remaining, 1))
    if not unread and _cost(paragraphs) <= limit:
        none_omitted = (0,) * (len(paragraphs) + 1)
        return ShownText(text, paragraphs, none_omitted)
    chosen = _richest(text, paragraphs, limit)
    bounds = (-1, *chosen, len(paragraphs) + unread)
    omitted = tuple(after - before - 1 for before, after in pairwise(bounds))
    shown = tuple(paragraphs[index] for index in chosen)
    return ShownText(text, shown, omitted)


def _gap(left_out: int) -> list[str]:
    if not left_out:
        return []
    plural = "s" if left_out > 1 else ""
    return [f"[{left_out} paragraph{plural} left out here]"]


def _cost(paragraphs: Sequence[Paragraph]) -> int:
    # 10: a paragraph's number and the blank line after it.
    return sum(paragraph.end - paragraph.start + 10 for paragraph in paragraphs)


def _paragraphs(text: str) -> Iterator[Paragraph]:
    """Cut at blank lines outside of fenced code; a heading goes with what follows it."""
    heading: int | None = None
    for start, end in _blocks(text):
        if _HEADING.fullmatch(text, start, end):
            if heading is None:
                heading = start
            continue
        for body, body_end in _pieces(text, start, end):
            beginning = body if heading is None else heading
            yield Paragraph(beginning, body, body_end)
            heading = None
    if heading is not None:
        yield Paragraph(heading, heading, len(text.rstrip()))


def _blocks(text: str) -> Iterator[tuple[int, int]]:
    start = len(text) - len(text.lstrip())
    stop = len(text.rstrip())
    # The marks first: the pattern looks at every line break and what follows it.
    has_code = False
    if "```" in text or "~~~" in text:
        has_code = _CODE_FENCE.search(text) is not None
    in_code = False
    previous_end = start
    for blank in _BLANK.finditer(text, start, stop):
        end = blank.start()
        if has_code:
            fences = _CODE_FENCE.findall(text, previous_end, end)
            if len(fences) % 2:
                in_code = not in_code
        previous_end = blank.end()
        is_long = end - start > _LONGEST  # a fence may never be closed
        if is_long or not in_code:
            yield start, end
            start = previous_end
    if start < stop:
        yield start, stop


def _pieces(
    text: str,
    start: int,
    end: int,
) -> Iterator[tuple[int, int]]:
    while end - start > _LONGEST:
        earliest = start + _LONGEST // 2
        cut = _cut(text, earliest, start + _LONGEST)
        piece = text[start:cut].rstrip()
        if piece:
            yield start, start + len(piece)
        space = _SPACE.match(text, cut)
        start = cut if space is None else space.end()
    if start < end:
        yield start, end


def _cut(text: str, earliest: int, latest: int) -> int:
    """Return the last good place to cut: after a line, a sentence, a word; or the latest."""
    for mark in ("\n", ". ", " "):
        place = text.rfind(mark, earliest, latest)
        if place >= 0:
            return place + len(mark)
    return latest


def _richest(
    text: str,
    paragraphs: Sequence[Paragraph],
    limit: int,
) -> list[int]:
    """Return the positions of the paragraphs to show."""
    counts = Counter(_WORD.findall(text.lower()))
    weights = {
        word: math.log(count)
        for word, count in counts.items()
        if count > 1 and word not in language.STOP_WORDS
    }

    def rank(section: range) -> tuple[float, int]:
        density = _density(text, paragraphs, section, weights)
        return -density, section[0]

    room = limit - _cost(paragraphs[:1])
    chosen = {0}
    for section in sorted(_sections(text, paragraphs), key=rank):
        for index in section:
            if index in chosen:
                continue
            cost = _cost((paragraphs[index],))
            if cost > room:
                break  # what follows in this section would follow on nothing
            chosen.add(index)
            room -= cost
    return sorted(chosen)


def _sections(text: str, paragraphs: Sequence[Paragraph]) -> Iterator[range]:
    """Cut the paragraphs before headings, and where a section grows long without one."""
    first = 0
    chars = 0
    for index, paragraph in enumerate(paragraphs):
        is_long = chars > _LONG_SECTION
        if index > first and (is_long or _HEADING.match(text, paragraph.start)):
            yield range(first, index)
            first = index
            chars = 0
        chars += paragraph.end - paragraph.start
    if paragraphs:
        yield range(first, len(paragraphs))


def _density(
    text: str,
    paragraphs: Sequence[Paragraph],
    section: range,
    weights: Mapping[str, float],
) -> float:
    start = paragraphs[section[0]].start
    end = paragraphs[section[-1]].end
    if _BACK_MATTER.match(text, start):
        return -1.0
    section_text = text[start:end].lower()
    words = set(_WORD.findall(section_text))
    weight = sum(weights.get(word, 0.0) for word in words)
    # The root: ten times as long a section holds more different words, but not ten times as many.
    return weight / math.sqrt(end - start)


_SYSTEM = "system_v1.txt"
_FILES = (
    _SYSTEM,
    "document_v1.jinja",
    "analysis_v1.jinja",
    "synthesis_v1.jinja",
    "enrichment_v1.jinja",
)
_SLOT = "\0"
"""Mark of the place for the one text that differs between questions."""


class Prompts(NamedTuple):
    """The prompt files of one configuration, filled in but for the document."""

    system: str
    """The system message, the same for all stages."""
    analysis: str
    """The task of stage 1, which nothing changes."""
    document: str
    """The opening of each question, with a slot for one text, as the next two have."""
    synthesis: str
    enrichment: str

    def opening(self, document: Document, shown: ShownText) -> str:
        """Return the part of the user message that the stages share."""
        title = " ".join(document.title.split())[:300]
        text = f"Title: {title}\n\n{shown.rendered()}"
        section = fenced(text, label="DOCUMENT", seed=document.doc_hash)
        return self.document.replace(_SLOT, section)

    def for_synthesis(self, document: Document, analysis: DocumentAnalysis) -> str:
        """Return the task of stage 2."""
        fields = analysis.model_dump(mode="json")
        return _filled(self.synthesis, fields, "ANALYSIS", document)

    def for_enrichment(self, document: Document, draft: stages.Draft) -> str:
        """Return the task of stage 3."""
        names = {"question", "criteria", "reference_answer"}
        fields = draft.model_dump(mode="json", include=names)
        return _filled(self.enrichment, fields, "DRAFT", document)


def _filled(
    task: str,
    fields: dict[str, Any],
    label: str,
    document: Document,
) -> str:
    text = json.dumps(fields, ensure_ascii=False)
    section = fenced(text, label=label, seed=document.doc_hash)
    return task.replace(_SLOT, section)


def load_prompts(config: LLMConfig) -> Prompts:
    """Read the files and fill in what the configuration decides; the same object every time."""
    return _load(config.questions_per_document, tuple(config.task_types))


def prompt_hashes(config: LLMConfig) -> dict[str, str]:
    """Return the prompt files that a configuration uses, each with its SHA-256."""
    texts = {name: _read(name) for name in _FILES}
    if asks_for_checks(config.task_types):
        for name in type_files(config.task_types):
            texts[name] = _text(name)
    return {name: text_sha256(text) for name, text in sorted(texts.items())}


def type_files(task_types: Sequence[TaskType]) -> list[str]:
    """Return the files on the kinds of questions to ask for, in the order of the configuration."""
    names = list[str](dict.fromkeys(task_types))
    if len(names) != 1:
        names.insert(0, "several")
    return [f"types/{name}_v1.txt" for name in names]


def instructions(task_types: Sequence[TaskType]) -> str:
    """Return the part of the prompt of stage 2 on the kinds of questions: their files, in order."""
    texts = [_text(name).strip() for name in type_files(task_types)]
    return "\n\n".join(texts)


def asks_for_checks(task_types: Sequence[TaskType]) -> bool:
    """Whether a question may hold checks that a program runs; none of the paper's does."""
    return any(kind != "open" for kind in task_types)


@lru_cache(maxsize=16)
def _load(questions: int, task_types: tuple[TaskType, ...]) -> Prompts:
    # Loaded with the first prompt: the extractive synthesiser needs none.
    from jinja2 import BaseLoader, Environment, StrictUndefined

    # Plain text for a model: nothing is escaped. A missing variable is an error, never a blank.
    environment = Environment(
        loader=BaseLoader(),
        autoescape=False,  # noqa: S701
        undefined=StrictUndefined,
    )
    environment.filters["tojson"] = json.dumps

    def filled(name: str, **values: object) -> str:
        return environment.from_string(_read(f"{name}_v1.jinja")).render(values)

    types = ""
    if asks_for_checks(task_types):
        types = instructions(task_types)
    return Prompts(
        system=_read(_SYSTEM),
        analysis=filled("analysis"),
        document=filled("document", document=_SLOT),
        synthesis=filled(
            "synthesis",
            analysis=_SLOT,
            questions=questions,
            task_types=task_types,
            kinds=", ".join(CriterionKind),
            types=types,
        ),
        enrichment=filled("enrichment", draft=_SLOT),
    )


def _read(name: str) -> str:
    return _text(name).rstrip("\n")


@lru_cache
def _text(name: str) -> str:
    file = resources.files("rubric_synth") / "prompts" / name
    return file.read_text("utf-8")
