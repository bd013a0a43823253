"""All checks of a draft that only read it, the cheapest first.

`pointers.toml` lists turns of phrase that point at a text which the reader does not have.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from string import Template
from typing import Any, NamedTuple

from rubric_core import DocumentAnalysis, SchemaError, Task, leaked_ngrams
from rubric_judge.judges.lexical.words import FUNCTION_WORDS
from rubric_judge.quality.lint.wording import check_wording
from rubric_synth.config import QualityConfig
from rubric_synth.document import Document, RejectionReason
from rubric_synth.quality.claims import check_claims
from rubric_synth.stages.stages import (
    TEXT_FIELDS,
    CriterionDraft,
    Draft,
    StageRefusal,
    refuse,
    terms_of,
)
from rubric_synth.tables import patterns, read_table, word_set

_Pattern = re.Pattern[str]


class Pointer(NamedTuple):
    """One way to point away from the text."""

    name: str
    hints: frozenset[str]
    """A text that holds none of these words, in lower case, is not searched."""
    points: Callable[[str], bool]
    """Whether a text, without its code and formulas, points away."""


_ASKING = FUNCTION_WORDS | word_set("asking")
_PATTERNS = patterns("draft")
_CITATION_CONTEXT = word_set("before_brackets")
_FEWEST_OWN_WORDS = 5


def _first_sentence(text: str) -> int:
    """Return where the first sentence ends."""
    match = _PATTERNS["sentence_end"].search(text)
    if match is None:
        return len(text)
    return match.end()


def _anywhere(pattern: _Pattern, text: str) -> bool:
    return pattern.search(text) is not None


def _nothing_behind(
    pattern: _Pattern,
    text: str,
    end: int | None = None,
) -> bool:
    """Match where the thing is not brought along."""
    if end is None:
        end = len(text)
    matches = pattern.finditer(text, 0, end)
    return any(not _is_brought_along(text, match) for match in matches)


def _is_brought_along(text: str, match: re.Match[str]) -> bool:
    return _PATTERNS["carried_by"].search(text, match.end()) is not None


def _at_the_start(pattern: _Pattern, text: str) -> bool:
    """Match in the first sentence only: further on, it may point at what the text itself says."""
    return _nothing_behind(pattern, text, _first_sentence(text))


def _unannounced(pattern: _Pattern, text: str) -> bool:
    """Match where the noun, a group, neither stands earlier in the text nor is brought along."""
    for match in pattern.finditer(text):
        group = next(group for group in match.groups() if group)
        noun = re.escape(group.rstrip(".s"))
        before = text[: match.start()]
        if re.search(rf"\b{noun}", before, re.IGNORECASE):
            continue
        if not _is_brought_along(text, match):
            return True
    return False


def _cited(pattern: _Pattern, text: str) -> bool:
    """Match a number in brackets after a word, or names where the text says little else."""
    for match in _PATTERNS["bracketed"].finditer(text):
        word = match[1]
        is_spaced = match[0][len(word)] in " .,;"
        is_word = len(word) > 1 and word[-1].isalpha()
        if is_spaced and is_word and word.lower() not in _CITATION_CONTEXT:
            return True
    # A name may be given to what a question describes; it may not be the whole description.
    if "et al" not in text:
        return False
    rest, count = pattern.subn(" ", text)
    if not count:
        return False
    long_words = _PATTERNS["long_word"].findall(rest)
    own = [word for word in long_words if word.lower() not in _ASKING]
    return len(own) < _FEWEST_OWN_WORDS


def _unnamed(pattern: _Pattern, text: str) -> bool:
    """Match where the text opens with a "this method" and has named nothing before that."""
    opening = text[: _first_sentence(text)]
    if _PATTERNS["its"].match(opening.strip()):
        return True
    match = pattern.search(opening)
    if match is None:
        return False
    before = opening[: match.start()]
    if "`" in before:
        return False
    words = re.findall(r"\w+", before)
    return all(word.lower() in _ASKING for word in words)


_WHERE: dict[str, Callable[[_Pattern, str], bool]] = {
    "anywhere": _anywhere,
    "at_the_start": _at_the_start,
    "cited": _cited,
    "nothing_behind": _nothing_behind,
    "unannounced": _unannounced,
    "unnamed": _unnamed,
}


def _pointers(kind: str) -> tuple[Pointer, ...]:
    table = read_table("pointers")

    def pointer(row: dict[str, Any]) -> Pointer:
        template = Template("|".join(row["patterns"]))
        source = template.substitute(table["parts"])
        pattern = re.compile(source, re.IGNORECASE)
        return Pointer(
            name=row["name"],
            hints=frozenset(row["hints"].split()),
            points=partial(_WHERE[row["where"]], pattern),
        )

    return tuple(pointer(row) for row in table["pointer"] if row["of"] == kind)


GUIDE_POINTERS = _pointers("guide")
"""Pointers in a scoring guide: its reader, the judge, has the passage, but has no figures."""
CRITERION_POINTERS = (*GUIDE_POINTERS, *_pointers("criterion"))
"""Pointers in the texts of a criterion."""
QUESTION_POINTERS = (*CRITERION_POINTERS, *_pointers("question"))
"""Pointers in a question."""

_LONGEST = {
    "question": 10_000,
    "passage": 250_000,
    "question_rationale": 20_000,
    "reference_answer": 100_000,
}
"""Characters, several times what anyone would write: only a reply gone wrong is longer."""
_NEEDED_TERMS = ("required_elements", "expected_keywords")
_LONGEST_CRITERION = 50_000
_LONGEST_ID = 200
_LONGEST_ANALYSIS = 50_000
_GREATEST_WEIGHT = 1_000.0
"""Scales go to 10 or to 100."""
_SAME = ("duplicate_criterion", "similar_ids")


def check_structure(draft: Draft, config: QualityConfig) -> None:
    """Apply the paper's structural checks, and refuse what is absurdly long.

    Raises:
        StageRefusal: With the first reason found.

    Source: paper, §3.4, Quality assurance.
    """
    refuse(RejectionReason.EMPTY_QUESTION, when=not draft.question.strip())
    weights = [criterion.weight for criterion in draft.criteria]
    _check_weights(weights, config)
    for number, criterion in enumerate(draft.criteria, start=1):
        missing = _missing_field(criterion)
        name = criterion.id.strip()[:_LONGEST_ID] or f"criterion {number}"
        refuse(RejectionReason.MISSING_FIELD, f"{name}: {missing}", when=bool(missing))
    _check_lengths(draft)
    greatest = max(weights)
    total = sum(weights)
    reason = RejectionReason.WEIGHT_OUT_OF_RANGE
    detail = f"a weight of {greatest:g}, above {_GREATEST_WEIGHT:g}"
    refuse(reason, detail, when=greatest > _GREATEST_WEIGHT)
    # A rubric whose other criteria count for next to nothing is one criterion.
    is_alone = len(weights) > 1 and greatest > 0.9 * total
    refuse(reason, f"one criterion has {greatest:g} of W = {total:g}", when=is_alone)
    refuse(RejectionReason.MISSING_FIELD, "passage", when=not draft.passage.strip())
    answer = draft.reference_answer.strip()
    refuse(RejectionReason.NO_REFERENCE, "reference_answer", when=not answer)


def check_analysis(analysis: DocumentAnalysis) -> None:
    """Refuse an analysis that is absurdly long: every task of the document carries it.

    Raises:
        StageRefusal: It is.
    """
    texts = (
        analysis.genre,
        analysis.contribution,
        analysis.depth,
        analysis.reasoning_mode,
    )
    length = sum(map(len, texts)) + sum(map(len, analysis.concepts))
    is_long = length > _LONGEST_ANALYSIS
    refuse(RejectionReason.FIELD_TOO_LONG, "document_analysis", when=is_long)


def check_repetition(task: Task) -> None:
    """Check that no criterion asks again for what another asks, under its own or a like id.

    Raises:
        StageRefusal: One does; the detail names it.
    """
    for finding in check_wording(task):
        detail = f"{finding.criterion_id} {finding.what}"
        refuse(RejectionReason.REPEATED_CRITERION, detail, when=finding.code in _SAME)


def _check_weights(weights: list[float], config: QualityConfig) -> None:
    count = len(weights)
    detail = f"{count} criteria, below {config.limit('min_criteria')}"
    are_few = count < config.min_criteria
    refuse(RejectionReason.TOO_FEW_CRITERIA, detail, when=are_few)

    detail = f"{count} criteria, above {config.limit('max_criteria')}"
    are_many = count > config.max_criteria
    refuse(RejectionReason.TOO_MANY_CRITERIA, detail, when=are_many)

    detail = "a weight is negative or not finite"
    for weight in weights:
        is_right = weight >= 0 and not math.isinf(weight)  # no NaN is
        refuse(RejectionReason.NEGATIVE_WEIGHT, detail, when=not is_right)

    # Plain addition, which overflows to infinity where `fsum` would raise.
    total = sum(weights)
    detail = f"W = {total:g}, below {config.limit('min_total_weight')}"
    is_low = total < config.min_total_weight
    refuse(RejectionReason.LOW_TOTAL_WEIGHT, detail, when=is_low)


def _check_lengths(draft: Draft) -> None:
    for name, limit in _LONGEST.items():
        length = len(getattr(draft, name))
        detail = f"{name}: {length} characters, above {limit}"
        refuse(RejectionReason.FIELD_TOO_LONG, detail, when=length > limit)
    for number, criterion in enumerate(draft.criteria, start=1):
        # A term counts more than its characters, so that a list of empty ones ends too.
        terms = terms_of(criterion)
        texts = [getattr(criterion, name) for name in TEXT_FIELDS]
        length = sum(map(len, texts)) + sum(map(len, terms)) + len(terms)
        detail = f"criterion {number}: {length} characters, its id {len(criterion.id)}"
        is_long = length > _LONGEST_CRITERION or len(criterion.id) > _LONGEST_ID
        refuse(RejectionReason.FIELD_TOO_LONG, detail, when=is_long)


def _missing_field(criterion: CriterionDraft) -> str:
    """Return the name of the first component that a criterion lacks, or "".

    A criterion that a program checks has them too: judges without the program read the terms.

    Source: paper, Definition 1.
    """
    for name in TEXT_FIELDS:
        if not getattr(criterion, name).strip():
            return name
    needed = ("expected_keywords",)
    if criterion.kind is None:
        needed = _NEEDED_TERMS
    for name in needed:
        if not any(map(str.strip, getattr(criterion, name))):
            return name
    return ""


_TOKEN = re.compile(r"\w+|[\[\\§]|\?\?")
_HINTS = frozenset[str]().union(*(pointer.hints for pointer in QUESTION_POINTERS))
"""Hints of all pointers, for those of a question include all others."""


def check_self_contained(draft: Draft) -> None:
    """Check that the question and the criteria can be read without the passage.

    A verification method may name the passage: the judge who follows it has it.

    Raises:
        StageRefusal: One points at a text that is not there; the detail names pattern and field.
    """
    reason = RejectionReason.NOT_SELF_CONTAINED
    name = pointers_in(draft.question, QUESTION_POINTERS)
    refuse(reason, f"{name} in question", when=bool(name))
    for criterion in draft.criteria:
        fields = tuple(_fields(criterion))
        # One look at all fields together: most criteria hold no hint of any pattern.
        all_texts = "\n".join(text for _, text, _ in fields)
        hinted = _hinted(all_texts, CRITERION_POINTERS)
        if not hinted:
            continue
        for field, text, pointers in fields:
            candidates = [pointer for pointer in hinted if pointer in pointers]
            name = _first(text, candidates)
            detail = f"{name} in criterion {criterion.id}: {field}"
            refuse(reason, detail, when=bool(name))


def pointers_in(text: str, pointers: Sequence[Pointer]) -> str:
    """Return the name of the first pattern that points away from a text, or ""."""
    return _first(text, _hinted(text, pointers))


def _first(text: str, pointers: Sequence[Pointer]) -> str:
    if not pointers:
        return ""
    prose = text
    if "`" in text or "$" in text:
        prose = _PATTERNS["code_or_formula"].sub("`", text)
    for pointer in pointers:
        if pointer.points(prose):
            return pointer.name
    return ""


def _hinted(text: str, pointers: Sequence[Pointer]) -> list[Pointer]:
    tokens = _TOKEN.findall(text.lower())
    words = _HINTS.intersection(tokens)
    if not words:
        return []
    return [pointer for pointer in pointers if not pointer.hints.isdisjoint(words)]


def _fields(criterion: CriterionDraft) -> Iterator[tuple[str, str, Sequence[Pointer]]]:
    yield "name", criterion.name, CRITERION_POINTERS
    yield "description", criterion.description, CRITERION_POINTERS
    yield "scoring_guide", criterion.scoring_guide, GUIDE_POINTERS
    for name in ("required_elements", "expected_keywords", "expected_concepts"):
        for text in getattr(criterion, name):
            if " " in text:  # it takes two words to point
                yield name, text, CRITERION_POINTERS


_WORD = re.compile(r"\w+")
_FEWEST_WORDS = 3
"""A shorter answer, "Yes" or a name, may well be part of the question."""


def check_leaks(task: Task, config: QualityConfig) -> None:
    """Check that the question shares no long run of words with what only the judge may see.

    Raises:
        StageRefusal: It does, or it holds a sentence of the reference answer or all of it.
    """
    leaks = leaked_ngrams(task, n=config.leak_words)
    count = sum(leak.count for leak in leaks)
    detail = f"{count} runs of as many words as {config.limit('leak_words')}"
    refuse(RejectionReason.LEAK, detail, when=bool(count))

    answer = task.reference_answer or ""
    is_told = _tells(task.question, answer, config.leak_words)
    refuse(RejectionReason.LEAK, "the reference answer in the question", when=is_told)


def _tells(question: str, answer: str, fewest_words: int) -> bool:
    """Whether a question holds an answer, or a sentence of it that is not a mere phrase."""

    def plain(text: str) -> str:
        words = _WORD.findall(text.lower())
        return f" {' '.join(words)} "

    plain_question = plain(question)
    plain_answer = plain(answer)
    is_long = plain_answer.count(" ") > _FEWEST_WORDS
    if is_long and plain_answer in plain_question:
        return True
    for sentence in _PATTERNS["sentence"].split(answer):
        plain_sentence = plain(sentence)
        is_long = plain_sentence.count(" ") > fewest_words
        if is_long and plain_sentence in plain_question:
            return True
    return False


_PUNCTUATION = str.maketrans(dict.fromkeys(".,;:?!'\"`", " "))


def check_draft(
    document: Document,
    analysis: DocumentAnalysis,
    draft: Draft,
    config: QualityConfig,
) -> Task:
    """Return the task of a draft that is sound in itself.

    Raises:
        StageRefusal: With the first reason found.
    """
    check_structure(draft, config)
    check_analysis(analysis)
    check_self_contained(draft)
    check_claims(draft)
    try:
        task = to_task(document, analysis, draft)
    except SchemaError as error:
        raise StageRefusal(RejectionReason.INVALID_SCHEMA, str(error)) from None
    check_repetition(task)
    check_leaks(task, config)
    return task


_NOT_PUBLISHED = {"task_type": True, "criteria": {"__all__": {"wrong_answer"}}}


def to_task(document: Document, analysis: DocumentAnalysis, draft: Draft) -> Task:
    """Return the task of a draft.

    Raises:
        SchemaError: The draft breaks a rule of rubrics or tasks.
    """
    return Task.from_json(
        {
            **draft.model_dump(mode="json", exclude=_NOT_PUBLISHED),
            "document_analysis": analysis.model_dump(mode="json"),
            "doc_hash": document.doc_hash,
        }
    )


def check_unrepeated(draft: Draft, accepted: Iterable[str]) -> None:
    """Check that a document's draft does not ask what an accepted one of it asks.

    Args:
        draft: The draft.
        accepted: Questions of the same document that have passed every check.

    Raises:
        StageRefusal: The question is there already, but for case, spaces and punctuation.
    """
    question = _normalised(draft.question)
    is_repeated = question in map(_normalised, accepted)
    refuse(RejectionReason.DUPLICATE_QUESTION, "of the same document", when=is_repeated)


def _normalised(question: str) -> str:
    # Signs such as + and - stay: they may be all that parts two questions.
    words = question.casefold().translate(_PUNCTUATION).split()
    return " ".join(words)
