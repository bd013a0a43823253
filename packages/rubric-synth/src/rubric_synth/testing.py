"""Answers of a scripted model and documents by the thousand, for tests, dry runs and benchmarks.

>>> with FakeEndpoint(scripted_reply) as endpoint:
...     config = ModelConfig(model="fake", transport="direct", api_base=endpoint.url)

The model answers the three stages from the prompt alone. It writes what the extractive stages find:
its drafts are real, and most pass the quality checks.
"""

import json
import random
import re
from collections.abc import Coroutine, Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

from rubric_core import DocumentAnalysis
from rubric_judge.testing import FakeCall
from rubric_synth.config import ExtractiveConfig
from rubric_synth.document import Document, parse_entry
from rubric_synth.sources.cleaning.markup import sections
from rubric_synth.stages.extractive.prose_tasks import extractive_stages
from rubric_synth.stages.stages import CriterionDraft, Draft, StageRefusal, Stages
from rubric_synth.tables import read_table

__all__ = ["generated_documents", "scripted_reply"]

_Result = TypeVar("_Result")
_Json = dict[str, Any]

_GAP = re.compile(r"\n\n\[\d+ paragraphs? left out here\]\Z")
_MOST_DRAFTS = re.compile(r"TASK: write (?:up to )?(\d+)")


class _Shown(NamedTuple):
    """A document as a prompt shows it."""

    title: str
    paragraphs: tuple[str, ...]
    """The shown ones; the first has the number 1."""

    def document(self) -> Document:
        text = "\n\n".join(self.paragraphs)
        kind = "prose" if parse_entry(text) is None else "api"
        return Document(
            title=self.title,
            text=text,
            source="prompt",
            kind=kind,
        )


def scripted_reply(call: FakeCall) -> str:
    """Answer a stage from the document in its prompt: an `Award` for `FakeEndpoint`.

    Raises:
        ValueError: Something is asked that no stage asks.
    """
    name = _schema_name(call.body)
    reply = _reply(name, call.messages[-1]["content"])
    return json.dumps(reply)


def _schema_name(body: Mapping[str, object]) -> str:
    """Return the name of the reply's schema in a request; "" where there is none."""
    section: Any = body
    for key in ("response_format", "json_schema"):
        section = section.get(key) or {}
    return str(section.get("name", ""))


def _reply(name: str, message: str) -> _Json:
    match name:
        case "_Ready":
            return {"ready": True}
        case "AnalysisReply":
            _, analysis = _analysed(_shown(message))
            return analysis.model_dump(mode="json")
        case "SynthesisReply":
            return {"drafts": _drafts(message, has_checks=False)}
        case "CheckedSynthesisReply":
            return {"drafts": _drafts(message, has_checks=True)}
        case "EnrichmentReply":
            criteria = json.loads(_fenced_text(message, "DRAFT"))["criteria"]
            return {"criteria": list(map(_enriched, criteria))}
        case _:
            raise ValueError(f"{name!r} is asked for, which is no stage of synthesis")


def _shown(message: str) -> _Shown:
    """Read the document out of a user message."""
    head, _, body = _fenced_text(message, "DOCUMENT").partition("\n\n")
    paragraphs: list[str] = []
    _, mark, rest = f"\n\n{body}".partition("\n\n[1] ")
    while mark:
        paragraph, mark, rest = rest.partition(f"\n\n[{len(paragraphs) + 2}] ")
        paragraphs.append(_GAP.sub("", paragraph))
    return _Shown(head.removeprefix("Title: "), tuple(paragraphs))


def _fenced_text(message: str, label: str) -> str:
    """Return what stands between the first BEGIN and END lines with a label."""
    start = message.index(f"----- BEGIN {label} ")
    line_end = message.index("\n", start)
    end_line = message[start:line_end].replace("BEGIN", "END", 1)
    end = message.index(f"\n{end_line}", line_end)
    return message[line_end + 1 : end]


# The three questions about a document follow each other.
@lru_cache(maxsize=64)
def _analysed(shown: _Shown) -> tuple[Stages, DocumentAnalysis]:
    document = shown.document()
    stages = extractive_stages([document], ExtractiveConfig())
    return stages, _now(stages.analyst.analyse(document))


def _drafts(message: str, *, has_checks: bool) -> list[_Json]:
    shown = _shown(message)
    numbers = _MOST_DRAFTS.findall(message)
    most = 1
    if numbers:
        most = min(int(numbers[-1]), 5)
    document = shown.document()
    # Short passages too: prompts may show little of a document.
    config = ExtractiveConfig(questions_per_document=most, min_passage_words=30)
    synthesiser = extractive_stages([document], config).synthesiser
    _, analysis = _analysed(shown)
    try:
        drafts = _now(synthesiser.synthesise(document, analysis))
    except StageRefusal:
        return []
    return [
        _draft(draft, shown, has_checks=has_checks)
        for draft in drafts
        if isinstance(draft, Draft)
    ]


def _draft(draft: Draft, shown: _Shown, *, has_checks: bool) -> _Json:
    first, last = _passage_range(draft, shown)
    criteria = [_criterion(criterion) for criterion in draft.criteria]
    reply: _Json = {
        "question_rationale": draft.question_rationale,
        "first_paragraph": first,
        "last_paragraph": last,
        "question": draft.question,
        "reference_answer": draft.reference_answer,
        "criteria": criteria,
    }
    if has_checks:
        reply["task_type"] = "open"
        for criterion in criteria:
            criterion["check"] = None
    return reply


def _passage_range(draft: Draft, shown: _Shown) -> tuple[int, int]:
    """Return the first and the last number of the paragraphs that hold the cleaned passage."""
    parts = frozenset(draft.passage.split("\n\n"))
    numbers: list[int] = []
    for number, paragraph in enumerate(shown.paragraphs, start=1):
        for section in sections(paragraph):
            if not parts.isdisjoint(section.paragraphs):
                numbers.append(number)
                break
    if not numbers:
        return 1, len(shown.paragraphs)
    return numbers[0], numbers[-1]


def _criterion(criterion: CriterionDraft) -> _Json:
    """Write a criterion as a model does, with an answer that must not earn it."""
    fields = criterion.model_dump(exclude={"expected_concepts"})
    fields["wrong_answer"] = "Nothing is known of that, and it makes no difference."
    return fields


def _enriched(criterion: Mapping[str, Any]) -> _Json:
    terms = [*criterion["required_elements"], *criterion["expected_keywords"]]
    return {
        "id": criterion["id"],
        "cues": {
            "full_credit": f"The answer holds {', '.join(terms)} and says how they are connected.",
            "partial_credit": "The answer holds some of these terms.",
            "no_credit": "The answer names none of them, or only repeats the question.",
        },
        "expected_keywords": [],
        "expected_concepts": terms[:1],
        "verification_patterns": [f"a complete sentence about {terms[0]}"],
    }


def _now(coroutine: Coroutine[Any, Any, _Result]) -> _Result:
    """Run a coroutine that waits for nothing; the endpoint's own event loop is running."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
    coroutine.close()
    raise RuntimeError("the extractive stages wait for nothing")


_CORPUS = read_table("corpus")
_ARTICLES = _CORPUS["articles"]
_WORDS = {kind: tuple(words.split()) for kind, words in _CORPUS["words"].items()}
_SENTENCES: list[int] = _ARTICLES["sentences"]
"""Number of sentences of each section."""
_FRAMES = tuple(
    " ".join(f"{frame}.".split()) for frame in _ARTICLES["frames"].split(".")[:-1]
)
_OF_A_KIND = 6
"""Words of each kind that an article uses: it comes back to its subjects."""


def generated_documents(
    n: int,
    *,
    seed: int = 0,
    start: int = 0,
) -> Iterator[Document]:
    """Yield articles of some 3,000 characters.

    Args:
        n: how many.
        seed: another one gives other articles.
        start: number of the first. Article i is the same in every call with the same seed.

    Yields:
        Articles with a title, sections, figures and caveats; no two near each other.
    """
    for number in range(start, start + n):
        generator = random.Random(f"{seed} {number}")
        theme = {
            kind: generator.sample(words, _OF_A_KIND) for kind, words in _WORDS.items()
        }
        process = theme["process"][0]
        material = theme["material"][0]
        place = theme["place"][0]
        title = f"{process.capitalize()} of {material} in {place} {number}"
        frames = generator.sample(_FRAMES, sum(_SENTENCES))
        parts = [f"# {title}"]
        for heading, length in zip(_ARTICLES["headings"], _SENTENCES, strict=True):
            sentences = [
                _sentence(frames.pop(), theme, generator) for _ in range(length)
            ]
            parts.append(f"## {heading} of {process}")
            parts.append(" ".join(sentences))
        yield Document(
            title=title,
            text="\n\n".join(parts),
            source=f"generated/{seed}/{number:08}.md",
        )


def _sentence(
    frame: str,
    theme: dict[str, list[str]],
    generator: random.Random,
) -> str:
    values: dict[str, str | float] = {}
    for kind, words in theme.items():
        place = int(generator.random() * _OF_A_KIND)
        values[kind] = words[place]
    values["number"] = 5 + int(generator.random() * 9_000) / 10
    return frame.format_map(values)
