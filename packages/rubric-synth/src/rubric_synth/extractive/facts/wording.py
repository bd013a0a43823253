"""Sentences about a programming object out of the phrases of its documentation."""

import re
from collections.abc import Sequence
from typing import Final

from rubric_core.rewriting import patterns
from rubric_synth import language
from rubric_synth.extractive import phrases
from rubric_synth.extractive.facts.parsing import is_english
from rubric_synth.tables import read_table

_TABLE: Final = read_table("facts")["pages"]
_ARTICLES: Final = frozenset(_TABLE["determiners"].split())
_SHORT: Final[dict[str, str]] = dict(
    pair.split("=", 1) for pair in _TABLE["short_names"].split() if "=" in pair
)
_PARTS: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|\d+")
_VOWELS: Final = "aeiou"
_CODE: Final = re.compile(r"`[^`]*`")
_PATTERNS: Final = patterns(read_table("patterns")["parameters"])
_SHORTEST_WORD: Final = 3
_NEAR: Final = 4
"""Words behind the first verb among which another may follow "and" at once."""


def third_person(verb: str) -> str:
    """Return a verb as a singular subject has it: "computes" of "compute"."""
    if verb == "have":
        return "has"
    if verb.endswith(("s", "x", "z", "ch", "sh", "o")):
        return f"{verb}es"
    if verb.endswith("y") and verb[-2:-1] not in _VOWELS:
        return f"{verb[:-1]}ies"
    return f"{verb}s"


def as_predicate(text: str) -> str:
    """Return a text that begins with a verb as a predicate in the third person; "" for any other.

    Args:
        text: "Compute and plot the spectrum", "Computes …", "Efficiently compute …".
    """
    words = text.split()
    place = 1 if len(words) > 1 and _is_adverb(words[0].lower()) else 0
    first = words[place].lower().rstrip(",") if words else ""
    verbs = phrases.VERBS | _MORE_VERBS
    verb = phrases.base_form(first, verbs)
    if not verb or len(words) < place + 2 or _is_adverb(verb):
        return ""
    told = [
        *map(str.lower, words[:place]),
        third_person(verb) + "," * words[place].endswith(","),
    ]
    rest = words[place + 1 :]
    for at, word in enumerate(rest):
        is_verb = word.lower().rstrip(",") in verbs
        takes = rest[at + 1].lower() if at + 1 < len(rest) else ""
        if is_verb and _is_joined(rest[:at], words[place], takes):
            bare = word.lower().rstrip(",")
            is_noun = at + 1 < len(rest) and rest[at + 1].lower() in {"of", "for", "in"}
            rest[at] = word if is_noun else third_person(bare) + word[len(bare) :]
    return " ".join((*told, *rest))


def _is_joined(before: Sequence[str], first: str, takes: str) -> bool:
    """Tell whether a verb belongs to the first: "and plot", ", optionally plot", "and plot it".

    Args:
        before: The words between them.
        first: The first verb.
        takes: The word behind the second.
    """
    last = before[-1].lower() if before else first[-1:]
    if len(before) < _NEAR:
        return last in {"and", "or", ","}
    if last == "and" and takes in {"it", "them", "the", "a", "an", "its"}:
        return True
    shown = " ".join(before).lower()
    return (
        re.search(r", (?:and|or|but|(?:and |or |but )?(?:\w+ly|then))$", shown)
        is not None
    )


def _is_adverb(word: str) -> bool:
    return word.endswith("ly") and word not in _NO_ADVERBS


_NO_ADVERBS: Final = frozenset({"apply", "multiply", "supply", "reply", "rely"})


def is_parameters_verb(text: str) -> bool:
    """Tell whether a text begins with a verb that is said of parameters: "Specifies how …"."""
    first, _, rest = text.partition(" ")
    word = first.lower()
    is_finite = word.endswith("s") and word not in _ENGLISH
    verbs = _PARAMETER_VERBS | phrases.VERBS if is_finite else _PARAMETER_VERBS
    is_one = bool(phrases.base_form(word, verbs))
    return is_one and rest.partition(" ")[0] not in _LINKS


def is_command(text: str) -> bool:
    """Tell whether a text tells the program what to do: "Return a reader", "Raise if …"."""
    first, _, rest = text.partition(" ")
    word = first.lower()
    if "/" in word:  # "enable/disable the grid"
        return word.split("/")[0] in phrases.VERBS | _MORE_VERBS | _PARAMETER_VERBS
    is_verb = word in phrases.VERBS | _MORE_VERBS and word not in _ENGLISH_NOUNS
    return (
        is_verb
        and not is_parameters_verb(text)
        and rest.partition(" ")[0] not in _LINKS
    )


_LINKS: Final = frozenset(
    {"of", "for", "in", "to", "from", "at", "with", "along", "between"}
)
_ENGLISH_NOUNS: Final = frozenset(_TABLE["english"].split())
_PARAMETER_VERBS: Final = frozenset(_TABLE["param_verbs"].split())
_MORE_VERBS: Final = frozenset(_TABLE["verbs"].split())


def with_article(phrase: str) -> str:
    """Return a noun phrase with "the" where it has no article or other determiner."""
    first = phrase.partition(" ")[0].lower()
    is_owner = phrase[:1].isupper() and first.endswith(
        ("'s", "’s")
    )  # "Newton's method"
    return phrase if is_owner or first in _ARTICLES else f"the {phrase}"


def own_stems(*names: str) -> frozenset[str]:
    """Return the stems of the words that names are made of, short ones written out.

    Args:
        names: Of objects and parameters: `max_iter`, `rtol`, `KDTree`.
    """
    parts = [part.lower() for name in names for part in _PARTS.findall(name)]
    whole = [name.lower().replace("_", "") for name in names]
    more = [
        long
        for part in (*parts, *whole)
        for long in _SHORT.get(part, "").split("+")
        if long
    ]
    return language.stems(" ".join((*parts, *whole, *more)))


def cut_short(text: str, name: str) -> frozenset[str]:
    """Return the stems of a text that a name holds cut short: "maximum" of `tmax`.

    Args:
        text: A summary.
        name: Of the object.
    """
    whole = name.lower().replace("_", "")
    words = (
        word for word in language.content_words(text) if len(word) >= _SHORTEST_WORD
    )
    return language.stems(" ".join(word for word in words if word[:3].lower() in whole))


def with_a(phrase: str) -> str:
    """Return a noun phrase with "a" or "an" before it."""
    first = phrase.strip("`")[:1].lower()
    is_vowel = first in _VOWELS and not phrase.lower().startswith(
        ("uni", "use", "one", "eu")
    )
    return f"{'an' if is_vowel else 'a'} {phrase}"


def with_one_of_many(sentence: str) -> str:
    """Return a sentence with "a" for the first "the" behind its verb.

    Args:
        sentence: "`f` returns the array of …".
    """
    start, the, rest = sentence.partition(" the ")
    return f"{start} {with_a(rest)}" if the else sentence


def code_name(name: str) -> frozenset[str]:
    """Return a name where it cannot be a word of a text: with a digit, a capital or "_"."""
    return frozenset() if name.isalpha() and name.islower() else frozenset({name})


def describes(text: str) -> bool:
    """Tell whether a text begins with a verb that only parameters have: "Specifies how …"."""
    first, _, rest = text.partition(" ")
    is_one = bool(phrases.base_form(first.lower(), _PARAMETER_VERBS))
    return is_one and rest.partition(" ")[0] not in _LINKS


def tells(sentence: str, own: frozenset[str], fewest: int = 2) -> bool:
    """Tell whether a sentence says more than the names in it.

    Args:
        sentence: About an object.
        own: Stems of the names of the object and of what it belongs to.
        fewest: Words of its own.
    """
    return len(_news(sentence, own)) >= fewest


def defines(sentence: str, own: frozenset[str]) -> bool:
    """Tell whether a sentence says two things of an object beside its names and light words.

    Args:
        sentence: "`tol` is the tolerance of the residual".
        own: Stems of the names of the object and of what it belongs to.
    """
    return len(_news(sentence, own) - _LIGHT) >= _FEWEST_NEW


def _news(sentence: str, own: frozenset[str]) -> frozenset[str]:
    plain = _CODE.sub(" ", sentence)
    said = {w for w in language.content_words(plain) if w.lower() not in _PLAIN}
    return frozenset(
        stem for stem in language.stems(" ".join(said)) if not _is_own(stem, own)
    )


def _is_own(word: str, own: frozenset[str]) -> bool:
    """Tell whether a stem is one of a name, or written out what a name cuts short: "pad", "reg"."""
    if word in own:
        return True
    return any(
        word.startswith(part)
        or (len(word) >= _WHOLE and part.startswith(word))
        or (len(part) > _WHOLE and word.endswith(part))
        for part in own
        if min(len(part), len(word)) >= _SHORTEST_WORD
    )


_WHOLE: Final = 4
_FEWEST_NEW: Final = 2
_LIGHT: Final = language.stems(_TABLE["light"])


def is_whole_phrase(text: str) -> bool:
    """Tell whether a text can be a noun phrase, and is no command, value or half of a sentence.

    Args:
        text: As the documentation has it, before an article is added.
    """
    return (
        _PATTERNS["no_phrase"].match(text) is None
        and _PATTERNS["cut"].search(text) is None
    )


_PLAIN: Final = frozenset(_TABLE["plain"].split())


def is_readable(text: str, most: int = 30) -> bool:
    """Tell whether a text, its code left out, is prose without signs, letters and pointers."""
    plain = _PATTERNS["shape"].sub("", _CODE.sub("X", text))
    return (
        bool(plain)
        and _PATTERNS["code_signs"].search(plain) is None
        and _PATTERNS["letter"].search(plain.replace("X", "")) is None
        and plain.count("(") == plain.count(")")
        and plain.count('"') % 2 == 0
        and not plain.rstrip(".").endswith((":", ",", "/"))
        and _PATTERNS["cut"].search(plain) is None
        and 1 < len(plain.split()) <= most
    )


def marked(text: str, names: frozenset[str]) -> str:
    """Put names of parameters in code marks, where they cannot be words of English.

    Args:
        text: A sentence.
        names: Those of the parameters.
    """

    def mark(found: re.Match[str]) -> str:
        word = found[0]
        is_long = word.islower() and len(word) >= _SHORTEST_WORD
        is_word = word.lower() in _ENGLISH or (is_long and is_english(word))
        is_word = is_word or found.string[: found.start()].endswith(_BEFORE_LETTERS)
        is_word = is_word or (word.isalpha() and is_long and _is_used_as_word(found))
        return f"`{word}`" if word in names and not is_word else word

    parts = re.split(r"(`[^`]*`)", text)
    told = "".join(
        p if p.startswith("`") else _PATTERNS["identifier"].sub(mark, p) for p in parts
    )
    told = _PATTERNS["lone_a"].sub("`a`", told) if "a" in names else told
    return _NAMES_LISTED.sub(lambda found: _marked_list(found[0], names), told)


_BEFORE_LETTERS: Final = ("Student ", "student ", "Student's ", "student's ")


def _is_used_as_word(found: re.Match[str]) -> bool:
    """Tell whether what stands beside a name makes it a word: "to extrapolate", "symmetric/…"."""
    before = found.string[: found.start()]
    behind = found.string[found.end() :]
    is_verb = re.search(r"\bto $", before) is not None
    is_before_noun = re.match(r" [a-z]{3,}(?<!s)s\b(?! )?", behind) is not None
    is_said_of = re.match(
        r" (?:is|was|has|as|does|must|arguments?|parameters?|keywords?)\b", behind
    )
    is_part = before.endswith("/") or behind.startswith("/")
    return is_verb or is_part or (is_before_noun and is_said_of is None)


def _marked_list(listed: str, names: frozenset[str]) -> str:
    """Return a list of names with marks about all of them where one has marks."""
    words = re.findall(r"\w+", listed.replace(" and ", " ").replace(" or ", " "))
    if "`" not in listed or not names.issuperset(words):
        return listed
    return re.sub(r"`?\b(?!and\b|or\b)(\w+)\b`?", r"`\1`", listed)


_NAMES_LISTED: Final = re.compile(
    r"(?<![\w`])`?\w+`?(?:, `?\w+`?)*,? (?:and|or) `?\w+`?(?![\w`-])"
)


_ENGLISH: Final = (
    frozenset(_TABLE["english"].split()) | phrases.VERBS | language.STOP_WORDS
)
