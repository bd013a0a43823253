"""Facts of an API entry: purpose, parameters with defaults and choices, results, conditions."""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Final

from rubric_core import CriterionKind
from rubric_synth import language
from rubric_synth.document import ApiEntry, ApiItem
from rubric_synth.extractive import phrases
from rubric_synth.extractive.api_tasks import purpose_sentence
from rubric_synth.facts.fact import Fact

_DEFAULT: Final = (
    re.compile(r"\b[Dd]efaults? (?:is|are|value is|of|to|value of)\s*:?\s*(?P<v>`?[\w'\".+-]+`?)"),
    re.compile(r"\b[Dd]efault\s*[:=]\s*(?P<v>[\w'\".+-]+)"),
    re.compile(r"\b[Dd]efaults to (?P<v>[\w'\".+-]+)"),
    re.compile(
        r"(?P<v>'[\w-]+'|\"[\w-]+\"|True|False|None|-?\d[\w.+-]*),? \((?:the )?(?:by )?default\)"
    ),
    re.compile(r"\((?P<v>[\w.+-]+),? (?:is the|by) default\)"),
)
_LITERAL: Final = re.compile(
    r"^(?:'[^']+'|\"[^\"]+\"|True|False|None|[-+]?\d[\d.]*(?:[eE][-+]?\d+)?|inf)$"
)
_QUOTED: Final = re.compile(r"['\"“‘]([\w+-]+)['\"”’]")
_WORDS: Final = range(4, 31)
_PLAIN: Final = frozenset(
    [
        "input",
        "inputs",
        "array",
        "arrays",
        "data",
        "value",
        "values",
        "object",
        "given",
        "function",
        "first",
        "second",
        "argument",
        "arguments",
        "parameter",
        "array_like",
        "output",
        "of",
        "the",
        "an",
        "to",
        "be",
        "sequence",
    ]
)
_VERB: Final = re.compile(
    r"^(?:specif|determin|control|indicat|defin|describ|giv|select|set|allow|return|comput|contain|us)\w*\b",
    re.IGNORECASE,
)
_CONDITION: Final = re.compile(r"^(?:if|when|for|with|unless|by default)\b", re.IGNORECASE)
_LIMIT: Final = re.compile(
    r"\b(?:must|cannot|can not|may not|only|should|never|not allowed|required|at least|at most)\b",
    re.IGNORECASE,
)
_UNREADABLE: Final = re.compile(
    r"[\\{}^=<>|]|::|\.\.\.|https?:|\b(?:see|as shown|second example|for example|refer to|mentioned|above|below|following|e\.g)\b",
    re.IGNORECASE,
)
_POINTS_BACK: Final = re.compile(
    r"^(?:this|these|in addition|not surprisingly|for more|another|both|with this|in such|that|those|it|its|they|such|otherwise|however|also|in this case|here|then|therefore|hence|thus)\b",
    re.IGNORECASE,
)
_MOST: Final = 8
_MOST_OF_PARAMETER: Final = 2


def api_facts(entry: ApiEntry) -> list[Fact]:
    """Read the facts of an entry, those first that an answer should open with.

    Args:
        entry: The entry.
    """
    proper = language.proper_names(". ".join(entry.texts()))
    found: list[Fact] = []
    summary = next(iter(language.sentences("".join(entry.summary[:1]))), "")
    if summary and not _UNREADABLE.search(summary):
        told = purpose_sentence(entry.name, entry.form, language.clip_words(summary, 25), proper)
        found.append(Fact(CriterionKind.DEFINITION, told, weight=2.0))
    for item in entry.parameters:
        if len(item.name) > 0 and item.name not in {"self"}:
            found += list(_parameter(item, proper))[: _MOST_OF_PARAMETER + 1]
    found += list(_returned(entry, proper))
    found += list(_raised(entry))
    found += list(_notes(entry))
    own = language.stems(" ".join(re.findall(r"[a-z]+|[A-Z][a-z]*", f"{entry.name} {entry.owner}")))
    return [fact for fact in found if fact.required or _tells(fact.sentence, own)]


def _tells(sentence: str, own: frozenset[str]) -> bool:
    """Tell whether a sentence says two things that the name of its object does not."""
    said = {w for w in language.content_words(sentence) if w.lower() not in _PLAIN}
    return len(language.stems(" ".join(said)) - own) > 1


def default_of(item: ApiItem) -> str:
    """Return the default of a parameter as documented, where it is a plain value."""
    for text in (item.kind, item.description):
        for pattern in _DEFAULT:
            if match := pattern.search(text):
                value = match["v"].strip("`").rstrip(".,;")
                if _LITERAL.match(value):
                    return value
    return ""


def _readable(text: str) -> bool:
    return (
        not _UNREADABLE.search(text)
        and text[0] != "("
        and not text.endswith(":")
        and len(language.words(text)) in _WORDS
        and text.count("(") == text.count(")")
        and len(language.content_words(text)) > 1
    )


def _parameter(item: ApiItem, proper: frozenset[str]) -> Iterator[Fact]:
    told = [s.rstrip(". ") for s in language.sentences(item.description)]
    told = [re.sub(r"\s*\((?:default|optional)[^)]*\)", "", one) for one in told]
    meaning = told[0] if told else ""
    meaning = re.sub(
        r",?\s*(?:the )?default(?:s)?(?: value)? (?:is|to|of)\b.*$",
        "",
        meaning,
        flags=re.IGNORECASE,
    )
    meaning = re.split(r";|\s[-–—]\s|: ", meaning)[0]
    choices = list(dict.fromkeys(_QUOTED.findall(item.kind)))
    if meaning and _readable_phrase(meaning) and not _CONDITION.match(meaning):
        yield Fact(
            CriterionKind.DEFINITION, f"`{item.name}` {_said(meaning, proper)}.", f"`{item.name}`"
        )
    if default := default_of(item):
        bare = default.strip("'\"")
        shown = f"'{bare}'" if default[0] in "'\"" else bare
        yield Fact(
            CriterionKind.DEFAULT,
            f"By default `{item.name}` is {shown}.",
            f"`{item.name}`",
            (_value(shown),),
        )
    if 1 < len(choices) < 5:  # noqa: PLR2004 - more are a list to copy
        listed = " or ".join((", ".join(f"'{c}'" for c in choices[:-1]), f"'{choices[-1]}'"))
        yield Fact(
            CriterionKind.CHOICES,
            f"`{item.name}` is one of {listed}.",
            f"`{item.name}`",
            tuple(f"'{c}'" for c in choices),
        )
    for one in told[1:] if meaning and not _CONDITION.match(meaning) else told:
        if (
            not _readable(one)
            or _POINTS_BACK.match(one)
            or re.search(r"\bdefault", one, re.IGNORECASE)
        ):
            continue
        kind = (
            CriterionKind.CONDITION
            if _CONDITION.match(one)
            else CriterionKind.LIMIT
            if _LIMIT.search(one)
            else ""
        )
        if kind:
            said = language.lower_first(one, proper)
            named = item.name in re.findall(r"\w+", one)
            text = (
                re.sub(rf"\b{re.escape(item.name)}\b", f"`{item.name}`", said)
                if named
                else f"for `{item.name}`, {said}"
            )
            yield Fact(kind, f"{language.capital_first(text)}.", f"`{item.name}`")


def _value(shown: str) -> str:
    same = {
        "None": "None|not given|left out|omitted|missing",
        "False": "False|off",
        "True": "True|on",
    }
    return same.get(shown, shown)


def _readable_phrase(text: str) -> bool:
    return (
        not _UNREADABLE.search(text)
        and 1 < len(language.words(text)) < 30  # noqa: PLR2004 - a phrase
        and text.count("(") == text.count(")")
        and len(language.content_words(text)) > 0
        and not phrases.BARE_TYPES.issuperset(map(str.lower, language.content_words(text)))
        and not text.lower().startswith("deprecated")
        and not _POINTS_BACK.match(text)
        and not _PLAIN.issuperset(map(str.lower, language.words(text)))
    )


def _said(meaning: str, proper: frozenset[str]) -> str:
    lowered = language.lower_first(meaning, proper)
    if lowered.lower().startswith(("whether", "if ")):
        return f"says {lowered}"
    first = lowered.split(maxsplit=1)[0]
    if _VERB.match(first) and first.endswith("s"):
        return lowered
    if _VERB.match(first) and not first.endswith(("ed", "ing", "ion", "er", "or")):
        return f"is there to {lowered}"
    if first.lower() in {"must", "can", "may", "should", "is", "has"}:
        return lowered
    article = first.lower() in {
        "a",
        "an",
        "the",
        "one",
        "number",
        "values",
        "any",
        "each",
        "all",
        "optional",
    }
    if first.endswith("ed"):
        return f"is {lowered}"
    return f"is {lowered}" if article or first.endswith("s") else f"is the {lowered}"


def _returned(entry: ApiEntry, proper: frozenset[str]) -> Iterator[Fact]:
    for verb, item in zip(("returns", "also returns"), entry.returns, strict=False):
        told = [s.rstrip(". ") for s in language.sentences(item.description)]
        first = re.sub(
            r"^(?:returns?|returned)\s+", "", told[0] if told else "", flags=re.IGNORECASE
        )
        first = re.split(r";|: ", first)[0]
        if first and _readable_phrase(first) and not _CONDITION.match(first):
            yield Fact(
                CriterionKind.RETURNS,
                f"`{entry.name}` {verb} {language.lower_first(first, proper)}.",
            )
        for one in told[1:]:
            if _readable(one) and not _POINTS_BACK.match(one) and _CONDITION.match(one):
                yield Fact(CriterionKind.CONDITION, f"{language.capital_first(one)}.")
                break


def _raised(entry: ApiEntry) -> Iterator[Fact]:
    for item in entry.raises[:1]:
        condition = item.description.split(". ")[0].rstrip(".")
        if condition.lower().startswith(("if ", "when ")) and _readable(condition):
            said = condition[0].lower() + condition[1:]
            yield Fact(
                CriterionKind.RAISES, f"`{entry.name}` raises {item.name} {said}.", "", (item.name,)
            )


def _notes(entry: ApiEntry) -> Iterator[Fact]:
    count = 0
    for paragraph in (*entry.summary[1:], *entry.notes):
        for raw in language.sentences(paragraph):
            one = phrases.LEAD_IN.sub("", raw).rstrip(". ")
            if not _readable(one) or _POINTS_BACK.match(one) or phrases.API_DEPENDENT.match(one):
                continue
            marked = (
                _LIMIT.search(one)
                or _CONDITION.match(one)
                or re.search(r"\b(?:because|since|if|when|not|than|unlike)\b", one)
            )
            if marked:
                kind = (
                    CriterionKind.CONDITION
                    if _CONDITION.match(one) or " if " in one
                    else CriterionKind.LIMIT
                )
                yield Fact(kind, f"{language.capital_first(one)}.")
                count += 1
                if count == 3:  # noqa: PLR2004 - enough
                    return


def chosen(found: list[Fact]) -> list[Fact]:
    """Choose facts for one question: of several parameters rather than many of one.

    Args:
        found: All facts of an entry.
    """
    telling = Counter[str]()
    for fact in found:
        if fact.topic:
            words = {w.lower() for w in language.content_words(fact.sentence)} - _PLAIN
            telling[fact.topic] += 3 if fact.required else min(len(words), 8)
    wanted = sorted(telling, key=lambda topic: -telling[topic])[:4]
    kept = [f for f in found if not f.topic][:1]
    per: dict[str, int] = {}
    rest: list[Fact] = []
    for fact in found:
        if fact.topic in wanted:
            per[fact.topic] = per.get(fact.topic, 0) + 1
            if per[fact.topic] <= _MOST_OF_PARAMETER:
                rest.append(fact)
    others = [f for f in found if not f.topic and f not in kept]
    room = _MOST - len(kept)
    rest = rest[: max(room - min(len(others), 3), 4)]
    picked = {id(f) for f in (*kept, *rest, *others[: room - len(rest)])}
    return [f for f in found if id(f) in picked]


def question_of(entry: ApiEntry, facts: list[Fact]) -> str:
    """Ask for the facts as an expert would.

    Args:
        entry: The entry.
        facts: Those that criteria are made of.
    """
    form = "" if entry.form == "function" else f"the {entry.form} "
    link = "of" if entry.form == "method" else "from"
    names = list(dict.fromkeys(f.topic for f in facts if f.topic))
    kinds = {f.kind for f in facts}
    parts = [f"What does {form}`{entry.name}` {link} {entry.owner} do"]
    if names:
        with_defaults = "default" in kinds
        parts.append(
            f"what do {language.listed(names)} mean"
            if len(names) > 1
            else f"what does {names[0]} mean"
        )
        if with_defaults:
            parts.append("which defaults do they have" if len(names) > 1 else "what is its default")
    if "returns" in kinds:
        parts.append("what does it return")
    if "raises" in kinds:
        parts.append("when does it raise an error")
    if any(f.kind in {"limit", "condition"} and not f.topic for f in facts):
        parts.append("which conditions or limits apply")
    return f"{language.listed(parts)}?"
