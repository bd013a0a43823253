"""Conditions that the documentation sets, each with what follows from it; frames for the parser."""

import re
from typing import NamedTuple

from rubric_core import CriterionKind
from rubric_synth.stages.extractive.facts import wording
from rubric_synth.stages.extractive.facts.fact import Fact
from rubric_synth.tables import patterns

_PATTERNS = patterns("parameters")
_SOUND = patterns("soundness")
_SET = re.compile(
    r"it (?:is|will be) (?:set|taken|assumed|computed|calculated|estimated|chosen|found|ignored)"
)
_LONGEST_CONDITION = 7


class Frame(NamedTuple):
    """A sentence that may become a fact, as the parser is to see it."""

    fact: Fact
    probe: str
    """The sentence with names in place of code."""
    is_phrase: bool = False
    """Whether it says what something is, with the phrase of the documentation after "is"."""
    bare: str = ""
    """The phrase as the documentation has it, to tell a command from a noun."""


def is_pointing(text: str) -> bool:
    """Tell whether a text holds a word that stands for something outside it."""
    return _PATTERNS["pointing"].search(text) is not None


def probe(sentence: str) -> str:
    """Return a sentence with a name for each piece of code in it, for the parser."""
    subject = "It" if _ONE.match(sentence) else "They"
    text = _ABOUT.sub(f"{subject} ", sentence)
    return re.sub(r"`[^`]*`", "Alpha", text).replace("callable", "function")


_ABOUT = re.compile(r"^`[^`]*`(?:(?:, | and )`[^`]*`)*\s")
_ONE = re.compile(r"^`[^`]*`\s(?!and )")


def condition_frame(
    clause: str,
    name: str,
    function: str,
    names: frozenset[str],
    kind: str = "",
) -> Frame | None:
    """Return a condition with what follows from it, as a sentence with a subject.

    Args:
        clause: "If True, return the indices", "If x is negative, …".
        name: Name of the parameter that it belongs to; "" for none.
        function: Bare name of the object.
        names: Names of all parameters.
        kind: Type of the parameter, as documented; "" where it is not known.
    """
    parts = _condition_and_rest(clause, name, names)
    if parts is None:
        return None
    condition, rest = parts
    rest = _SOUND["tail"].sub("", rest)
    condition = re.sub(r"\s\((?:the )?default\)$", "", condition)
    condition = _with_type(_with_marks(condition, names), kind)
    if not condition:
        return None
    about = name or conditioned(condition, names)
    is_finite = rest.partition(" ")[0].endswith("s")
    is_described = bool(about) and is_finite and wording.describes(rest)
    predicate = wording.as_predicate(rest)
    first = rest.partition(" ")[0].lower()
    has_helper = _PATTERNS["helper"].match(rest) is not None
    is_complete = has_helper or first in {"a", "an", "the"}
    if is_described:
        rest = f"`{about}` {rest}"  # "If an integer, represents the number of …"
    elif predicate and not is_complete:
        rest = f"`{function}` {predicate}"
    own_name = rf"^{re.escape(about)}(?= (?:is|has|must|will|should)\b)"
    rest = re.sub(own_name, f"`{about}`", rest)
    known = names | wording.code_name(function)
    sentence = wording.marked(f"{condition}, {rest}.", known)
    if not wording.is_readable(sentence) or _PATTERNS["pointing"].search(sentence):
        return None
    condition = wording.marked(condition, known)
    if len(condition.split()) > _LONGEST_CONDITION:
        return None
    if _SOUND["own_requirement"].search(rest):
        return None
    case = f"{condition[0].lower()}{condition[1:]}"
    if is_described or re.match(rf"`{re.escape(about)}` is (?:an?|the) ", rest):
        question = f"what does `{about}` mean {case}"
        question = question.replace(f"if `{about}` is ", "if it is ")
    elif _SOUND["requirement"].search(rest) is not None:
        question = f"what must hold {case}"
    else:
        question = f"what happens {case}"
    topic = f"`{name}`" if name else ""
    fact = Fact(CriterionKind.CONDITION, sentence, topic, question=question)
    return Frame(fact, probe(sentence))


def _with_marks(condition: str, names: frozenset[str]) -> str:
    """Return a condition with its parameter in code marks."""
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
    """Return a condition with an article before its type; "" where `kind` lacks the type.

    Args:
        condition: "If `w` is bool".
        kind: "{bool, 'periodic', None}".
    """
    match = _PATTERNS["type_case"].match(condition)
    if match is None:
        return condition
    name = match["type"]
    short_names = (name[:3], _OTHER_TYPES.get(name, name))
    if kind and not any(short in kind.lower() for short in short_names):
        return ""
    if match["article"]:
        return condition
    at = match.start("type")
    return f"{condition[:at]}{article(name)} {condition[at:]}"


_OTHER_TYPES = {
    "function": "callable",
    "callable": "function",
    "sequence": "list",
}


def _condition_and_rest(
    sentence: str,
    name: str,
    names: frozenset[str],
) -> tuple[str, str] | None:
    """Cut a sentence after its condition, "it" in the rest replaced by its antecedent.

    None where that is not known, or the condition is not about the parameter.
    """
    pattern = _PATTERNS["head"].pattern.replace("NAME", re.escape(name or "NAME"))
    head = re.match(pattern, sentence) if name else None
    if head is not None:
        condition = f"If `{name}` is {head['what']}"
        rest = head["rest"]
        subject = name
    else:
        parts = re.match(r"^((?:If|When)\s[^,]+),\s+(?:then )?(.+)$", sentence)
        if parts is None:
            return None
        condition, rest = parts.groups()
        if name:
            own = rf"(?<=^If )`?{re.escape(name)}`?(?= (?:is|are|has)\b)"
            condition = re.sub(own, f"`{name}`", condition)
        subject = conditioned(condition, names)
    if name and "`" not in condition:
        return None
    if name and not subject and rest.startswith("it "):
        return None
    if re.match(r"it is \w+ that\b", rest):
        return None
    is_nothing = re.search(r" (?:is|are) (?:None|not \w+|omitted|left out)$", condition)
    if is_nothing and re.match("it ", rest) and not _SET.match(rest):
        return None  # "If `w` is None, it must be sorted": "it" is another thing
    if subject:
        pronoun = r"^it (?=(?:is|must|will|has|should|can)\b)"
        rest = re.sub(pronoun, f"`{subject}` ", rest)
    return condition, rest


def conditioned(condition: str, names: frozenset[str]) -> str:
    """Return the parameter that a condition is about; "" where it is about something else.

    Args:
        condition: "If `w` is negative", or a sentence that begins so.
        names: Names of all parameters.
    """
    match = re.match(r"(?:If|When) `?(\w+)`? (?:is|are|has|have)\b", condition)
    if match is None or match[1] not in names:
        return ""
    return match[1]


def article(word: str) -> str:
    """Return the article that a type takes."""
    if word[0] in "aei" or word.startswith("nd"):
        return "an"
    return "a"
