"""The default of a parameter, as its page documents it."""

import re
from collections.abc import Iterator

from rubric_core import CriterionKind
from rubric_synth import language
from rubric_synth.document import ApiItem
from rubric_synth.stages.extractive.facts.conditions import Frame, probe
from rubric_synth.stages.extractive.facts.fact import Fact
from rubric_synth.tables import patterns

_PATTERNS = patterns("parameters")
_OBJECTS = patterns("objects")
_VALUE = _PATTERNS["value"].pattern
_NO_NAMES = (
    "this",
    "it",
    "set",
    "default",
    "defaults",
    "Default",
    "Defaults",
    "value",
)
_DEFAULT = tuple(
    re.compile(source + _PATTERNS["end"].pattern)
    for source in (
        rf"\b[Dd]efaults? (?:value )?(?:is|are|of|to|=|is set to)\s*:?\s*(?:\w+=)?{_VALUE}",
        rf"\b[Dd]efault\s*[:=]\s*{_VALUE}",
        rf"\b[Dd]efault {_VALUE}",
        rf"\b[Dd]efault \({_VALUE}\)",
        rf"(?:^|[\s{{]){_VALUE},? \((?:the )?(?:by )?[Dd]efault\)",
        rf"\({_VALUE},? (?:is the|by) default\)",
    )
)


def value_of(default: str) -> str:
    """Return how an answer may say a value, alternatives apart by "|"."""
    same = {
        "None": "None|not given|left out|omitted|not set|unset|not specified|not provided",
        "False": "False|turned off|switched off|disabled|not enabled",
        "True": "True|turned on|switched on|enabled",
    }
    return same.get(default, default.strip("'\""))


def default_of(item: ApiItem, *, takes_words: bool = False) -> str:
    """Return the default of a parameter as documented, where it is a plain value; "" elsewhere.

    Nothing where the documentation names two, or one that holds in some cases only.

    Args:
        item: The parameter.
        takes_words: Whether a word in code marks is a value too: "Default: `info`."
    """
    has_keys = "dict" in item.kind or item.name.endswith(("kwargs", "kwds", "options"))
    values: list[str] = []
    others: list[str] = []
    texts = (item.kind,) if has_keys else (item.kind, item.description)
    for text in texts:
        for pattern in _DEFAULT:
            for match in pattern.finditer(text):
                if " : " in text[: match.start()]:
                    continue  # the default of a key of a dictionary
                if _is_of_a_case(text, match, item.name):
                    continue
                value = match["v"].strip("`").rstrip(".,;")
                is_word = takes_words and _is_word(text, match)
                if not is_word and not _PATTERNS["literal"].match(value):
                    continue
                if _PATTERNS["default_if"].match(text[match.end("v") :]):
                    return ""
                values.append(value)
        others += [match["v"] for match in _PATTERNS["other_default"].finditer(text)]
        others += [
            match[0]
            for match in _PATTERNS["computed_default"].finditer(text)
            if not _is_nothing(_case_of(text, match), item.name)
        ]
    if not values:
        return ""
    bare = values[0].strip("'\"")
    if bare.replace("_", "").isalpha() and item.name.endswith(f"_{bare}"):
        return ""
    distinct = {_as_number(value.strip("'\"")) for value in (*values, *others)}
    return values[0] if len(distinct) == 1 else ""


def _is_word(text: str, default: re.Match[str]) -> bool:
    """Tell whether a default is one value in code marks that ends its sentence."""
    value = _OBJECTS["word_in_marks"].fullmatch(default["v"])
    ends = _OBJECTS["sentence_end"].match(text[default.end("v") :])
    return value is not None and ends is not None


def _is_of_a_case(text: str, default: re.Match[str], name: str) -> bool:
    """Tell whether a default holds only where something else does: "If …, this defaults to 1".

    A parameter that is None, or not given, has its default; "if part == 'r' (default)" and "`x`,
    whose default is 1" are about another parameter.

    Args:
        text: Text of the page.
        default: The match that states the default.
        name: Name of the parameter.
    """
    if _PATTERNS["default_of_another"].search(text[: default.start()]):
        return True
    match = _PATTERNS["value_of_name"].search(text[: default.start("v")])
    if match is not None:
        owner = match["name"] or match["equal"]
        if owner != name and owner not in _NO_NAMES:
            return True
    if not default[0].lower().startswith("defaults to"):
        return False
    if _PATTERNS["then_otherwise"].match(text[default.end("v") :]):
        return True
    case = _case_of(text, default)
    return bool(case) and not _is_nothing(case, name)


def _case_of(text: str, default: re.Match[str]) -> str:
    """Return the condition of a sentence before its default; "" for none."""
    sentences = list(language.sentences(text[: default.start()]))
    last = sentences[-1] if sentences else ""
    case = _PATTERNS["case"].match(last)
    return case["what"] if case is not None else ""


def _is_nothing(case: str, name: str) -> bool:
    """Tell whether a condition says that a parameter is None, or not given."""
    nothing = _PATTERNS["nothing_given"].pattern.replace("NAME", re.escape(name))
    return re.match(nothing, case) is not None


def _as_number(value: str) -> float | str:
    try:
        return float(value)
    except ValueError:
        return value


def default_frames(
    item: ApiItem,
    topic: str,
    first: str,
) -> Iterator[Frame]:
    """Yield the default of a parameter.

    Args:
        item: The parameter.
        topic: Its name in code marks.
        first: First sentence of its description.
    """
    question = f"the default of {topic}"
    default = default_of(item)
    if default:
        bare = default.strip("'\"")
        value = f"'{bare}'" if default[0] in "'\"" else bare
        sentence = f"By default {topic} is {value}."
        required = (value_of(value),)
        fact = Fact(
            CriterionKind.DEFAULT,
            sentence,
            topic,
            required,
            question=question,
        )
        yield Frame(fact, "")
        return
    phrase = _PATTERNS["default_phrase"].search(first)
    if phrase is not None:
        statement = f"{topic} is {phrase['what'] or phrase['other']}."
        sentence = f"By default {statement}"
        fact = Fact(CriterionKind.DEFAULT, sentence, topic, question=question)
        yield Frame(fact, probe(statement), is_phrase=True)
