"""The question that asks for the facts of a page."""

import re
from collections.abc import Sequence

from rubric_core import CriterionKind
from rubric_synth import language
from rubric_synth.document import ApiEntry
from rubric_synth.extractive.facts.fact import Fact


def question_of(entry: ApiEntry, facts: Sequence[Fact]) -> str:
    """Ask for the facts as an expert would, for each kind by the names it is asked of.

    Args:
        entry: The entry.
        facts: Those that criteria are made of.
    """
    form = "" if entry.form == "function" else f"the {entry.form} "
    link = "of" if entry.form == "method" else "from"
    described = f"{form}`{entry.name}` {link} {entry.owner}"
    topics = {kind: _topics(facts, kind) for kind in CriterionKind}
    asks: list[str] = []
    starts = {f"what does `{entry.name}` do", f"what is `{entry.name}`"}
    purposes = [fact for fact in facts if fact.question in starts]
    opening = (
        purposes[0].question.replace(f"`{entry.name}`", described) if purposes else ""
    )
    if meant := topics[CriterionKind.DEFINITION]:
        named = language.listed(meant)
        asks.append(f"what {'do' if len(meant) > 1 else 'does'} {named} mean")
    if defaults := topics[CriterionKind.DEFAULT]:
        noun = "defaults" if len(defaults) > 1 else "default"
        asks.append(
            f"what {'are' if len(defaults) > 1 else 'is'} the {noun} of {language.listed(defaults)}"
        )
    if types := topics[CriterionKind.SHAPE]:
        asks.append(
            f"of which type {'are' if len(types) > 1 else 'is'} {language.listed(types)}"
        )
    if choices := topics[CriterionKind.CHOICES]:
        asks.append(f"which values may {language.listed(choices)} take")
    plain = {
        CriterionKind.DEFINITION,
        CriterionKind.DEFAULT,
        CriterionKind.CHOICES,
        CriterionKind.SHAPE,
    }
    for fact in facts:
        asked = _asked_of(fact, facts)
        is_further = not (fact in purposes or (fact.topic and fact.kind in plain))
        if is_further and asked not in asks:
            asks.append(asked)
    if opening:
        parts = _with_pronouns([opening, *asks], entry.name)
        return " ".join(f"{language.capital_first(ask)}?" for ask in parts)
    first, *others = asks
    lead = (
        f"In a call to {described}, {first}?"
        if entry.form != "class"
        else f"For {described}, {first}?"
    )
    return " ".join((lead, *(f"{language.capital_first(ask)}?" for ask in others)))


def _with_pronouns(asks: Sequence[str], name: str) -> list[str]:
    """Say "it" for an object, where the part before is about the object too.

    Args:
        asks: Parts of a question, the first of which names the object.
        name: Of the object.
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
    topics = (fact.topic for fact in facts if fact.topic and fact.kind == kind)
    return list(
        dict.fromkeys(name for topic in topics for name in re.findall("`[^`]*`", topic))
    )
