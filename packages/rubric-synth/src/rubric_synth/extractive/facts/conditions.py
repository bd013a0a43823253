"""Conditions that the documentation sets, each with what follows from it; frames for the parser."""

import re
from typing import Final, NamedTuple

from rubric_core import CriterionKind
from rubric_core.rewriting import patterns
from rubric_synth.extractive.facts import wording
from rubric_synth.extractive.facts.fact import Fact
from rubric_synth.tables import read_table

_PATTERNS: Final = patterns(read_table("patterns")["parameters"])
_SOUND: Final = patterns(read_table("patterns")["soundness"])
_SET: Final = re.compile(
    r"it (?:is|will be) (?:set|taken|assumed|computed|calculated|estimated|chosen|found|ignored)"
)
_LONGEST_CONDITION: Final = 7


class Frame(NamedTuple):
    """A sentence that may become a fact, as the parser is to see it."""

    fact: Fact
    probe: str
    """The sentence with names in place of code."""
    is_phrase: bool = False
    """Whether it says what something is, with the phrase of the documentation behind "is"."""
    bare: str = ""
    """The phrase as the documentation has it, to tell a command from a noun."""


def is_pointing(text: str) -> bool:
    """Tell whether a text holds a word that stands for something outside it."""
    return _PATTERNS["pointing"].search(text) is not None


def probe(sentence: str) -> str:
    """Return a sentence with a name for each piece of code in it, for the parser."""
    subject = "It" if _ONE.match(sentence) else "They"
    about = _ABOUT.sub(f"{subject} ", sentence)
    return re.sub(r"`[^`]*`", "Alpha", about).replace("callable", "function")


_ABOUT: Final = re.compile(r"^`[^`]*`(?:(?:, | and )`[^`]*`)*\s")
_ONE: Final = re.compile(r"^`[^`]*`\s(?!and )")


def condition_frame(
    one: str, name: str, function: str, names: frozenset[str], kind: str = ""
) -> Frame | None:
    """Return a condition with what follows from it, as a sentence with a subject.

    Args:
        one: "If True, return the indices", "If x is negative, …".
        name: Of the parameter that it is said of; "" for none.
        function: Bare name of the object.
        names: Of all parameters.
        kind: Type of the parameter, as documented; "" where it is not known.
    """
    parts = _condition_and_rest(one, name, names)
    if parts is None:
        return None
    condition, rest = parts
    rest = _SOUND["tail"].sub("", rest)
    condition = _with_marks(re.sub(r"\s\((?:the )?default\)$", "", condition), names)
    if (condition := _with_type(condition, kind)) == "":
        return None
    about = name or conditioned(condition, names)
    is_finite = rest.partition(" ")[0].endswith("s")
    is_described = bool(about) and is_finite and wording.describes(rest)
    predicate = wording.as_predicate(rest)
    first = rest.partition(" ")[0].lower()
    if is_described:
        rest = f"`{about}` {rest}"  # "If an integer, represents the number of …"
    elif (
        predicate
        and first not in {"a", "an", "the"}
        and _PATTERNS["helper"].match(rest) is None
    ):
        rest = f"`{function}` {predicate}"
    rest = re.sub(
        rf"^{re.escape(about)}(?= (?:is|has|must|will|should)\b)", f"`{about}`", rest
    )
    known = names | wording.code_name(function)
    told = wording.marked(f"{condition}, {rest}.", known)
    if not wording.is_readable(told) or _PATTERNS["pointing"].search(told):
        return None
    condition = wording.marked(condition, known)
    if len(condition.split()) > _LONGEST_CONDITION:
        return None
    is_required = _SOUND["requirement"].search(rest) is not None
    if _SOUND["own_requirement"].search(rest):
        return None
    asked = "what must hold" if is_required else "what happens"
    question = f"{asked} {condition[0].lower()}{condition[1:]}"
    if is_described or re.match(rf"`{re.escape(about)}` is (?:an?|the) ", rest):
        question = f"what does `{about}` mean {condition[0].lower()}{condition[1:]}"
        question = question.replace(f"if `{about}` is ", "if it is ")
    fact = Fact(
        CriterionKind.CONDITION, told, f"`{name}`" if name else "", question=question
    )
    return Frame(fact, probe(told))


def _with_marks(condition: str, names: frozenset[str]) -> str:
    """Return a condition with code marks about the parameter that it is about."""
    listed = re.match(
        r"(?:If|When) ((?:\w+(?:, | or | and ))+\w+) (?:is|are|has|have)\b", condition
    )
    if listed is not None and names.issuperset(re.split(", | or | and ", listed[1])):
        marked = re.sub(r"(?!or\b|and\b)\b(\w+)", r"`\1`", listed[1])
        return condition.replace(listed[1], marked, 1)
    about = conditioned(condition, names)
    return re.sub(
        rf"(?<= )`?{re.escape(about)}`?(?= )", f"`{about}`", condition, count=1
    )


def _with_type(condition: str, kind: str) -> str:
    """Return a condition with an article before its type; "" for one that `kind` has not.

    Args:
        condition: "If `w` is bool".
        kind: "{bool, 'periodic', None}".
    """
    match = _PATTERNS["type_case"].match(condition)
    if match is None:
        return condition
    name = match["type"]
    if kind and not any(
        short in kind.lower() for short in (name[:3], _OTHER_TYPES.get(name, name))
    ):
        return ""
    if match["article"]:
        return condition
    at = match.start("type")
    return f"{condition[:at]}{article(name)} {condition[at:]}"


_OTHER_TYPES: Final = {
    "function": "callable",
    "callable": "function",
    "sequence": "list",
}


def _condition_and_rest(
    one: str, name: str, names: frozenset[str]
) -> tuple[str, str] | None:
    """Cut a sentence behind its condition, "it" in the rest replaced by what it stands for.

    None where that is not known, or the condition is not about the parameter.
    """
    pattern = _PATTERNS["head"].pattern.replace("NAME", re.escape(name or "NAME"))
    if name and (head := re.match(pattern, one)) is not None:
        condition = f"If `{name}` is {head['what']}"
        rest = head["rest"]
        subject = name
    else:
        parts = re.match(r"^((?:If|When)\s[^,]+),\s+(?:then )?(.+)$", one)
        if parts is None:
            return None
        own = rf"(?<=^If )`?{re.escape(name)}`?(?= (?:is|are|has)\b)"
        condition = re.sub(own, f"`{name}`", parts[1]) if name else parts[1]
        rest = parts[2]
        subject = conditioned(condition, names)
    if name and ("`" not in condition or (not subject and rest.startswith("it "))):
        return None
    if re.match(r"it is \w+ that\b", rest):
        return None
    is_nothing = re.search(r" (?:is|are) (?:None|not \w+|omitted|left out)$", condition)
    if is_nothing and re.match("it ", rest) and not _SET.match(rest):
        return None  # "If `w` is None, it must be sorted": another thing must
    said = r"^it (?=(?:is|must|will|has|should|can)\b)"
    return condition, re.sub(said, f"`{subject}` ", rest) if subject else rest


def conditioned(condition: str, names: frozenset[str]) -> str:
    """Return the parameter that a condition is about; "" where it is about something else.

    Args:
        condition: "If `w` is negative", or a sentence that begins so.
        names: Of all parameters.
    """
    about = re.match(r"(?:If|When) `?(\w+)`? (?:is|are|has|have)\b", condition)
    return about[1] if about is not None and about[1] in names else ""


def article(word: str) -> str:
    """Return the article that a type takes."""
    return "an" if word[0] in "aei" or word.startswith("nd") else "a"
