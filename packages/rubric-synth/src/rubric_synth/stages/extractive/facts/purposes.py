"""Facts that say what an object of an API is or does."""

import re
from collections.abc import Iterator

from rubric_core import CriterionKind
from rubric_synth import language
from rubric_synth.document import ApiEntry
from rubric_synth.stages.extractive.facts import conditions, wording
from rubric_synth.stages.extractive.facts.conditions import Frame
from rubric_synth.stages.extractive.facts.fact import Fact
from rubric_synth.tables import patterns

_PATTERNS = patterns("parameters")


def purposes_of(
    entry: ApiEntry,
    proper: frozenset[str],
) -> Iterator[Frame | None]:
    """Yield what the summary says that an object is or does, in its first sentence and later ones.

    Args:
        entry: Entry of the object.
        proper: Words that keep their capital.
    """
    for number, paragraph in enumerate(entry.summary[:2]):
        for place, sentence in enumerate(language.sentences(paragraph)):
            is_title = (number, place) == (0, 0)
            if is_title or _PATTERNS["this_object"].match(sentence):
                yield _purpose(sentence, entry, proper)


def _purpose(
    sentence: str,
    entry: ApiEntry,
    proper: frozenset[str],
) -> Frame | None:
    names = frozenset(item.name for item in entry.parameters)
    summary = sentence.rstrip(". ")
    summary = _PATTERNS["this_object"].sub("", summary)
    summary = wording.marked(summary, names)
    if not _is_sound(summary, entry):
        return None
    predicate = wording.as_predicate(summary)
    if predicate:
        frame = _purpose_of_verb(entry, predicate)
    elif entry.form != "class" and " to " in summary:
        return None  # "State space to transfer function"
    elif not wording.is_whole_phrase(summary):
        return None
    else:
        frame = _purpose_of_noun(entry, summary, proper)
    own = wording.own_stems(entry.name)
    own |= wording.cut_short(summary, entry.name)
    if not wording.defines(frame.fact.sentence, own):
        return None
    return frame


def _is_sound(summary: str, entry: ApiEntry) -> bool:
    """Tell whether a summary is readable, points at nothing and does not repeat the name."""
    if not wording.is_readable(summary) or conditions.is_pointing(summary):
        return False
    is_itself = summary.lower().startswith(f"{entry.name.lower()} ")
    if is_itself and entry.form == "class":
        return False  # "Bounds constraint on the variables" of `Bounds`
    return _PATTERNS["no_verb"].match(summary) is None


def _purpose_of_verb(entry: ApiEntry, predicate: str) -> Frame:
    name = f"`{entry.name}`"
    sentence = f"{name} {predicate}."
    question = f"what does {name} do"
    fact = Fact(CriterionKind.DEFINITION, sentence, question=question)
    return Frame(fact, conditions.probe(sentence))


def _purpose_of_noun(
    entry: ApiEntry,
    summary: str,
    proper: frozenset[str],
) -> Frame:
    name = f"`{entry.name}`"
    lowered = summary
    if not re.match(r"(?!The\b)[A-Z][a-z]+ [A-Z]", summary):
        lowered = language.lower_first(summary, proper)
    if entry.form == "class":
        verb = "is"
        question = f"what is {name}"
    else:
        verb = "gives"
        question = f"what does {name} do"
    sentence = f"{name} {verb} {wording.with_article(lowered)}."
    bare = ""
    if not lowered.startswith(("a ", "an ", "the ")):
        bare = conditions.probe(summary)
    return Frame(
        Fact(CriterionKind.DEFINITION, sentence, question=question),
        conditions.probe(sentence),
        is_phrase=True,
        bare=bare,
    )
