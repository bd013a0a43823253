"""The question that asks for the facts of a page."""

import re
from collections.abc import Iterator, Sequence

from rubric_core import CriterionKind
from rubric_synth import language
from rubric_synth.document import ApiEntry
from rubric_synth.stages.extractive.facts.fact import Fact


def question_of(entry: ApiEntry, facts: Sequence[Fact]) -> str:
    """Ask for the facts as an expert would, with the names of parameters for each kind.

    Args:
        entry: The entry.
        facts: Facts that criteria are made of.
    """
    if entry.is_of_manual:
        return _of_manual(entry, facts)
    form = "" if entry.form == "function" else f"the {entry.form} "
    link = "of" if entry.form == "method" else "from"
    described = f"{form}`{entry.name}` {link} {entry.owner}"
    starts = {f"what does `{entry.name}` do", f"what is `{entry.name}`"}
    purposes = [fact for fact in facts if fact.question in starts]
    asks = list(_asks_about_parameters(facts))
    for fact in facts:
        is_asked = fact in purposes or (fact.topic and fact.kind in _JOINT_KINDS)
        if is_asked:
            continue
        ask = _asked_of(fact, facts)
        if ask not in asks:
            asks.append(ask)
    if purposes:
        opening = purposes[0].question.replace(f"`{entry.name}`", described)
        parts = _with_pronouns([opening, *asks], entry.name)
        return " ".join(f"{language.capital_first(ask)}?" for ask in parts)
    first, *others = asks
    lead = "For" if entry.form == "class" else "In a call to"
    parts = [f"{lead} {described}, {first}", *map(language.capital_first, others)]
    return " ".join(f"{part}?" for part in parts)


def _of_manual(entry: ApiEntry, facts: Sequence[Fact]) -> str:
    """Ask for facts of options, settings or variables, whose program comes first."""
    asks = list(_asks_about_parameters(facts))
    for fact in facts:
        if fact.kind not in _JOINT_KINDS and fact.question not in asks:
            asks.append(fact.question)
    first, *others = asks
    lead = f"Among the {_OBJECTS[entry.form]} of {entry.name}"
    parts = [f"{lead}, {first}", *map(language.capital_first, others)]
    return " ".join(f"{part}?" for part in parts)


_OBJECTS = {
    "options": "command-line options",
    "settings": "settings",
    "variables": "environment variables",
}
_JOINT_KINDS = {
    CriterionKind.DEFINITION: ("what does {} mean", "what do {} mean"),
    CriterionKind.DEFAULT: ("what is the default of {}", "what are the defaults of {}"),
    CriterionKind.SHAPE: ("of which type is {}", "of which type are {}"),
    CriterionKind.CHOICES: ("which values may {} take", "which values may {} take"),
}
"""Kinds of facts that one part of a question asks for, of one parameter or of several together."""


def _asks_about_parameters(facts: Sequence[Fact]) -> Iterator[str]:
    """Yield the parts of a question that ask for one kind of fact of several parameters."""
    for kind, (of_one, of_several) in _JOINT_KINDS.items():
        topics = _topics(facts, kind)
        ask = of_several if len(topics) > 1 else of_one
        if topics:
            yield ask.format(language.listed(topics))


def _with_pronouns(asks: Sequence[str], name: str) -> list[str]:
    """Say "it" for an object, where the part before is about the object too.

    Args:
        asks: Parts of a question, the first of which names the object.
        name: Name of the object.
    """
    own = f" does `{name}` "
    parts = [asks[0]]
    is_about_it = True
    for ask in asks[1:]:
        parts.append(ask.replace(own, " does it ") if is_about_it else ask)
        is_about_it = own in ask
    return parts


def _asked_of(fact: Fact, facts: Sequence[Fact]) -> str:
    """Return the question of a fact, of errors in the plural where there are several."""
    same = sum(other.question == fact.question for other in facts)
    if fact.kind != CriterionKind.RAISES or same == 1:
        return fact.question
    return re.sub("^which (error|warning) ", r"which \1s ", fact.question)


def _topics(facts: Sequence[Fact], kind: CriterionKind) -> list[str]:
    """Return the names of parameters that facts of a kind are about, in code marks."""
    names: list[str] = []
    for fact in facts:
        if fact.kind == kind:
            names += re.findall("`[^`]*`", fact.topic)
    return list(dict.fromkeys(names))
