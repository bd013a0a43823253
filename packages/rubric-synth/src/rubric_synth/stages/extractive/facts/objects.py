"""Facts of options, settings and variables of a manual: what each does, and its default."""

import re
from collections.abc import Iterator

from rubric_core import CriterionKind
from rubric_synth import language
from rubric_synth.document import ApiItem
from rubric_synth.stages.extractive.facts import (
    conditions,
    defaults,
    parsing,
    wording,
)
from rubric_synth.stages.extractive.facts.conditions import Frame
from rubric_synth.stages.extractive.facts.fact import Fact
from rubric_synth.tables import patterns, word_sets

_PATTERNS = patterns("objects")
_PARAMETERS = patterns("parameters")
_CODE = re.compile(r"`[^`]*`")
_PLACEHOLDER = re.compile("`[A-Z]`")
_WORDS = word_sets("facts", "objects")
_VERBS = _WORDS["verbs"]
_NOUNS = _WORDS["nouns"]
_WITH_FOR = frozenset({"ask", "check", "prompt", "search", "test", "wait", "watch"})
_BEHIND_NOUNS = _WORDS["behind_nouns"]
_PLAIN_VERBS = _VERBS - _NOUNS
_OPENS_CLAUSE = frozenset(
    {"to", "that", "which", "who", "when", "if", "can", "may", "will", "not", "must"}
)
"""Words behind which a second verb belongs to another one than the first."""


def without_subject(sentence: str) -> str:
    """Return a first sentence without the words for its object: "This option skips …".

    Args:
        sentence: The sentence.
    """
    return _PATTERNS["this_object"].sub("", sentence)


def is_about_object(sentence: str) -> bool:
    """Tell whether a first sentence is about an object, and not about who sets it.

    Args:
        sentence: The sentence, such as "Set to false to leave out the bell".
    """
    return _PATTERNS["users_act"].match(sentence) is None


def _has_subject(sentence: str) -> bool:
    """Tell whether the first word of a sentence belongs to the subject of its verb."""
    phrase = f"The {language.lower_first(sentence)}."
    (doc,) = parsing.parsed([conditions.probe(phrase)])
    root = parsing.root_of(doc)
    subject = None if root is None else parsing.child(root, "nsubj", "nsubjpass")
    return subject is not None and subject.left_edge.i == 0


def purpose_frame(topic: str, sentence: str) -> Frame | None:
    """Return what an object does, where its description begins with a verb; None elsewhere.

    Args:
        topic: Its name in code marks.
        sentence: The first sentence, such as "Skip files that are newer on the receiver".
    """
    if not wording.is_readable(sentence) or conditions.is_pointing(sentence):
        return None
    if _PATTERNS["noun_first"].match(sentence):
        return None
    first, second = sentence.split()[:2]
    takes_for = second == "for" and first.lower() in _WITH_FOR
    is_noun = first.lower() in _NOUNS and second in _BEHIND_NOUNS
    if is_noun and not takes_for:
        return None  # "Prefix to use", "Limit of"
    if first.lower() in _NOUNS and _has_subject(sentence):
        return None  # "Commit objects record the encoding"
    predicate = wording.as_predicate(sentence, _VERBS)
    if not predicate:
        return None
    predicate = _PATTERNS["second_end"].sub(r"\1s", _with_second_verb(predicate))
    for match in _PATTERNS["after_to"].finditer(predicate):
        joint = match[1].split()[-1]
        if f" {joint} {match[2]}" in sentence:  # "used to parse and check the program"
            predicate = predicate.replace(match[0], f"{match[1]}{match[2]}")
    fact = Fact(
        CriterionKind.DEFINITION,
        f"{topic} {predicate}.",
        topic,
        question=f"the meaning of {topic}",
    )
    return Frame(fact, conditions.probe(fact.sentence))


def _with_second_verb(predicate: str) -> str:
    """Return a predicate whose second verb agrees with it: "enables the mode and attempts to …".

    Args:
        predicate: "enables the repair mode and attempt to fix problems".
    """
    words = predicate.split()
    for place in range(2, len(words) - 1):
        before = words[:place]
        is_verb = words[place] in _PLAIN_VERBS and words[place + 1] != "and"
        if not is_verb or before[-1] != "and" or before[-2] in _PLAIN_VERBS:
            continue
        if not _OPENS_CLAUSE.intersection(before):
            words[place] = wording.third_person(words[place])
    return " ".join(words)


def with_name(sentence: str, name: str) -> str:
    """Return a sentence whose condition names its object: "If true, …" says of what; "" of "it".

    Args:
        sentence: A sentence of its description.
        name: Its name.
    """
    if _PATTERNS["of_it"].match(sentence):
        return ""  # "it" may be what the sentence before is about
    match = _PATTERNS["with_object"].match(sentence)
    if match is not None:
        return f"If {name} is given, {match['rest']}"
    match = _PATTERNS["condition"].match(sentence)
    if match is None:
        return sentence
    return f"If {name} is {match['what']}, {match['rest']}"


def is_sound(fact: Fact, text: str, item: ApiItem | None) -> bool:
    """Tell whether a fact is about its object, whole, and its code as the page writes it.

    Args:
        fact: A fact.
        text: The entry that it was read from.
        item: The object; None where it is of several.
    """
    codes = _CODE.findall(fact.sentence)
    if any(code[1:-1] not in text for code in codes):
        return False
    if any(_PLACEHOLDER.fullmatch(code) for code in codes):
        return False
    match fact.kind:
        case CriterionKind.CONDITION:
            is_own = fact.sentence.startswith(f"If {fact.topic} ")
            return is_own and not _has_false_subject(fact.sentence, text)
        case CriterionKind.LIMIT:
            # "Should metadata be saved" asks, and sets no limit.
            return _PATTERNS["asks"].match(fact.sentence) is None
        case CriterionKind.DEFINITION:
            return _is_whole(fact.sentence, item.description if item else "")
        case _:
            return True


def _has_false_subject(sentence: str, text: str) -> bool:
    """Tell whether a program became the subject of what follows from a condition, and is none.

    "git-config writes the index" of a page about Git's settings; "Git renames detection is off".
    """
    rest = sentence.partition(", ")[2]
    program = text.partition("\n")[0].partition(" of ")[2]
    if not rest.startswith((f"{program} ", f"`{program}` ")):
        return False
    if rest.rstrip(".") in text:
        return False
    if "-" in program:
        return True
    return _PATTERNS["second_predicate"].search(rest) is not None


def _is_whole(sentence: str, description: str) -> bool:
    """Tell whether a meaning is a whole one, with the exceptions of its description."""
    first = next(iter(language.sentences(description)), "")
    exception = _PATTERNS["exception"]
    if exception.search(first) and not exception.search(sentence):
        return False
    if _PATTERNS["half"].search(sentence) or _is_cut(sentence, first):
        return False
    holds = re.match(r"`[^`]*` holds (?:the )?\w+ (\w+)", sentence)
    # "`x` holds the disallows functions": a verb that is not known.
    return holds is None or holds[1] in _BEHIND_NOUNS


def _is_cut(sentence: str, whole: str) -> bool:
    """Tell whether a meaning ends within a case, or before what a colon announces.

    Args:
        sentence: The meaning, such as "`x` closes the gate, when it rains."
        whole: The first sentence of the description.
    """
    end = " ".join(sentence.rstrip(".").split()[-2:])
    if end not in whole:
        return False
    rest = whole.partition(end)[2]
    if _PATTERNS["rest_of_case"].match(rest) and _PATTERNS["case_here"].search(
        sentence
    ):
        return True
    if rest.startswith(" (") and _PATTERNS["open_end"].search(sentence):
        return True  # "or zero (no limit)"
    return rest.startswith(":")


def repaired(fact: Fact, program: str, text: str) -> Fact:
    """Return a fact as a manual says it: "is set", and the program without code marks.

    Args:
        fact: A fact.
        program: Name of the program.
        text: The entry that it was read from.
    """
    sentence = fact.sentence.replace("` is a set", "` is set")
    question = fact.question.replace("` is a set", "` is set")
    marked = f"`{program}`"
    if marked not in text:
        sentence = sentence.replace(marked, program)
    if _PATTERNS["duty"].search(sentence) is None:
        question = question.replace("what must hold if", "what happens if")
    return fact._replace(sentence=sentence, question=question)


def default_frames(
    item: ApiItem,
    topic: str,
    names: frozenset[str],
) -> Iterator[Frame]:
    """Yield the default of an object, where its text states one value.

    Args:
        item: The object.
        topic: Its name in code marks.
        names: The objects of its entry; one that stands as a default stands for its value.
    """
    default = defaults.default_of(item, takes_words=True)
    bare = default.strip("'\"")
    # A sign alone cannot be found in an answer.
    if re.search(r"\w", bare) is None or _PATTERNS["no_value"].fullmatch(bare):
        return
    if bare in names and default[0] not in "'\"":
        return
    unit = _unit_of(default, item.description)
    if unit is None or _is_of_a_version(default, item.description):
        return
    value = f"`{bare}`"
    if default[0] in "'\"":
        value = f"'{bare}'"
    elif _PARAMETERS["literal"].match(default):
        value = f"{bare}{unit}"
    fact = Fact(
        CriterionKind.DEFAULT,
        f"By default {topic} is {value}.",
        topic,
        (defaults.value_of(default),),
        question=f"the default of {topic}",
    )
    yield Frame(fact, "")


def _is_of_a_version(default: str, text: str) -> bool:
    """Tell whether a sentence states a default for some versions alone.

    Args:
        default: The value, as the text writes it.
        text: The description that states it.
    """
    return any(
        default in sentence
        and _PATTERNS["states_default"].search(sentence) is not None
        and _PATTERNS["of_a_version"].search(sentence) is not None
        for sentence in language.sentences(text)
    )


def _unit_of(default: str, text: str) -> str | None:
    """Return the unit behind a default, "" for none; None where more than a unit follows.

    Args:
        default: The value, as the text writes it.
        text: The description that states it.
    """
    unit = ""
    places = re.finditer(
        rf"(?i)\bdefault[^.]*?(?<![\w.]){re.escape(default)}(?!\w)", text
    )
    for place in places:
        sentence = language.sentences(text[: place.end()])[-1]
        if _PATTERNS["default_of_a_case"].match(sentence):
            return None
        after = text[place.end() :]
        match = _PATTERNS["unit"].match(after)
        if match is not None:
            unit = f" {match['unit']}"
        elif _PATTERNS["default_goes_on"].match(after):
            return None
    return unit
