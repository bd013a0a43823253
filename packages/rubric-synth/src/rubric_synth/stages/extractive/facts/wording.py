"""Sentences about a programming object out of the phrases of its documentation."""

import re
from collections.abc import Sequence

from rubric_synth import language
from rubric_synth.stages.extractive import phrases
from rubric_synth.stages.extractive.facts.parsing import is_english
from rubric_synth.tables import patterns, word_sets

_TABLE = word_sets("facts", "pages")
_ARTICLES = _TABLE["determiners"]
_SHORT: dict[str, str] = dict(
    pair.split("=", 1) for pair in _TABLE["short_names"] if "=" in pair
)
_PARTS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|\d+")
_VOWELS = "aeiou"
_CODE = re.compile(r"`[^`]*`")
_PATTERNS = patterns("parameters")
_SHORTEST_WORD = 3
_NEAR = 4
"""Number of words after the first verb among which another may follow "and" at once."""


def third_person(verb: str) -> str:
    """Return a verb as a singular subject has it: "computes" of "compute"."""
    if verb == "have":
        return "has"
    if verb.endswith(("s", "x", "z", "ch", "sh", "o")):
        return f"{verb}es"
    if verb.endswith("y") and verb[-2:-1] not in _VOWELS:
        return f"{verb[:-1]}ies"
    return f"{verb}s"


def as_predicate(text: str, more: frozenset[str] = frozenset()) -> str:
    """Return a text that begins with a verb as a predicate in the third person; "" for any other.

    Args:
        text: "Compute and plot the spectrum", "Computes …", "Efficiently compute …".
        more: Verbs beside those of functions, in their base form.
    """
    words = text.split()
    if len(words) <= 1:
        return ""
    place = 1 if _is_adverb(words[0].lower()) else 0
    if len(words) < place + 2:
        return ""
    verbs = phrases.VERBS | _MORE_VERBS | more
    first_verb = words[place]
    verb = phrases.base_form(first_verb.lower().rstrip(","), verbs)
    if not verb or _is_adverb(verb):
        return ""
    predicate = third_person(verb)
    if first_verb.endswith(","):
        predicate += ","
    adverbs = [word.lower() for word in words[:place]]
    rest = words[place + 1 :]
    for at, word in enumerate(rest):
        bare = word.lower().rstrip(",")
        if bare not in verbs:
            continue
        following = ""
        if at + 1 < len(rest):
            following = rest[at + 1].lower()
        if following in {"of", "for", "in"}:
            continue
        if _is_joined(rest[:at], first_verb, following):
            rest[at] = third_person(bare) + word[len(bare) :]
    return " ".join((*adverbs, predicate, *rest))


def _is_joined(before: Sequence[str], first: str, takes: str) -> bool:
    """Tell whether a verb belongs to the first: "and plot", ", optionally plot", "and plot it".

    Args:
        before: The words between them.
        first: The first verb.
        takes: The word after the second.
    """
    last = first[-1:]
    if before:
        last = before[-1].lower()
    if len(before) < _NEAR:
        return last in {"and", "or", ","}
    if last == "and" and takes in _OPENS_OBJECT:
        return True
    text = " ".join(before).lower()
    joint = r", (?:and|or|but|(?:and |or |but )?(?:\w+ly|then))$"
    return re.search(joint, text) is not None


_OPENS_OBJECT = frozenset({"it", "them", "the", "a", "an", "its"})


def _is_adverb(word: str) -> bool:
    return word.endswith("ly") and word not in _NO_ADVERBS


_NO_ADVERBS = frozenset({"apply", "multiply", "supply", "reply", "rely"})


def is_parameters_verb(text: str) -> bool:
    """Tell whether a text begins with a verb whose subject is a parameter: "Specifies how …"."""
    first, _, rest = text.partition(" ")
    word = first.lower()
    verbs = _PARAMETER_VERBS
    if word.endswith("s") and word not in _ENGLISH:
        verbs = _PARAMETER_VERBS | phrases.VERBS
    if not phrases.base_form(word, verbs):
        return False
    second = rest.partition(" ")[0]
    return second not in _LINKS


def is_command(text: str) -> bool:
    """Tell whether a text tells the program what to do: "Return a reader", "Raise if …"."""
    first, _, rest = text.partition(" ")
    word = first.lower()
    verbs = phrases.VERBS | _MORE_VERBS
    if "/" in word:  # "enable/disable the grid"
        first_verb = word.split("/")[0]
        return first_verb in verbs | _PARAMETER_VERBS
    if word not in verbs or word in _ENGLISH_NOUNS:
        return False
    if is_parameters_verb(text):
        return False
    second = rest.partition(" ")[0]
    return second not in _LINKS


_LINKS = frozenset({"of", "for", "in", "to", "from", "at", "with", "along", "between"})
_ENGLISH_NOUNS = _TABLE["english"]
_PARAMETER_VERBS = _TABLE["param_verbs"]
_MORE_VERBS = _TABLE["verbs"]


def with_article(phrase: str) -> str:
    """Return a noun phrase with "the" where it has no article or other determiner."""
    first = phrase.partition(" ")[0].lower()
    if first in _ARTICLES:
        return phrase
    if phrase[:1].isupper() and first.endswith(("'s", "’s")):
        return phrase  # "Newton's method"
    return f"the {phrase}"


def own_stems(*names: str) -> frozenset[str]:
    """Return the stems of the words that names are made of, short ones written out.

    Args:
        names: Names of objects and parameters: `max_iter`, `rtol`, `KDTree`.
    """
    words: list[str] = []
    for name in names:
        parts = _PARTS.findall(name)
        words.extend(part.lower() for part in parts)
        joined = name.replace("_", "")
        words.append(joined.lower())
    long_forms = [form for word in words for form in _SHORT.get(word, "").split("+")]
    return language.stems(" ".join((*words, *long_forms)))


def cut_short(text: str, name: str) -> frozenset[str]:
    """Return the stems of a text that a name holds cut short: "maximum" of `tmax`.

    Args:
        text: A summary.
        name: Name of the object.
    """
    whole = name.lower().replace("_", "")
    words = [
        word
        for word in language.content_words(text)
        if len(word) >= _SHORTEST_WORD and word[:3].lower() in whole
    ]
    return language.stems(" ".join(words))


def with_a(phrase: str) -> str:
    """Return a noun phrase with "a" or "an" before it."""
    first = phrase.strip("`")[:1].lower()
    sounds_consonant = phrase.lower().startswith(("uni", "use", "one", "eu"))
    if first in _VOWELS and not sounds_consonant:
        return f"an {phrase}"
    return f"a {phrase}"


def with_one_of_many(sentence: str) -> str:
    """Return a sentence with "a" for the first "the" after its verb.

    Args:
        sentence: "`f` returns the array of …".
    """
    start, article, rest = sentence.partition(" the ")
    if not article:
        return sentence
    return f"{start} {with_a(rest)}"


def code_name(name: str) -> frozenset[str]:
    """Return a name where it cannot be a word of a text: with a digit, a capital or "_"."""
    if name.isalpha() and name.islower():
        return frozenset()
    return frozenset({name})


def describes(text: str) -> bool:
    """Tell whether a text begins with a verb that only parameters have: "Specifies how …"."""
    first, _, rest = text.partition(" ")
    if not phrases.base_form(first.lower(), _PARAMETER_VERBS):
        return False
    second = rest.partition(" ")[0]
    return second not in _LINKS


def tells(sentence: str, own: frozenset[str], fewest: int = 2) -> bool:
    """Tell whether a sentence says more than the names in it.

    Args:
        sentence: About an object.
        own: Stems of the names of the object and of its owner.
        fewest: Fewest words of its own.
    """
    return len(_news(sentence, own)) >= fewest


def defines(sentence: str, own: frozenset[str]) -> bool:
    """Tell whether a sentence says two things of an object beside its names and light words.

    Args:
        sentence: "`tol` is the tolerance of the residual".
        own: Stems of the names of the object and of its owner.
    """
    new_stems = _news(sentence, own) - _LIGHT
    return len(new_stems) >= _FEWEST_NEW


def _news(sentence: str, own: frozenset[str]) -> frozenset[str]:
    """Return the stems of a sentence that are neither plain words nor parts of names."""
    without_code = _CODE.sub(" ", sentence)
    words = {
        word
        for word in language.content_words(without_code)
        if word.lower() not in _PLAIN
    }
    stems = language.stems(" ".join(words))
    return frozenset(stem for stem in stems if not _is_own(stem, own))


def _is_own(word: str, own: frozenset[str]) -> bool:
    """Tell whether a stem is part of a name, or the long form of one: "pad", "reg"."""
    if word in own:
        return True
    if len(word) < _SHORTEST_WORD:
        return False
    return any(
        word.startswith(part)
        or (len(word) >= _WHOLE and part.startswith(word))
        or (len(part) > _WHOLE and word.endswith(part))
        for part in own
        if len(part) >= _SHORTEST_WORD
    )


_WHOLE = 4
_FEWEST_NEW = 2
_LIGHT = language.stems(" ".join(_TABLE["light"]))


def is_whole_phrase(text: str) -> bool:
    """Tell whether a text can be a noun phrase, and is no command, value or half of a sentence.

    Args:
        text: A text of the documentation, before an article is added.
    """
    if _PATTERNS["no_phrase"].match(text) is not None:
        return False
    return _PATTERNS["cut"].search(text) is None


_PLAIN = _TABLE["plain"]


def is_readable(text: str, most: int = 30) -> bool:
    """Tell whether a text, its code left out, is prose without signs, letters and pointers."""
    without_code = _CODE.sub("X", text)
    plain = _PATTERNS["shape"].sub("", without_code)
    count = len(plain.split())
    if count <= 1 or count > most:
        return False
    if plain.count("(") != plain.count(")") or plain.count('"') % 2 == 1:
        return False
    if plain.rstrip(".").endswith((":", ",", "/")):
        return False
    without_marks = plain.replace("X", "")
    if _PATTERNS["letter"].search(without_marks) is not None:
        return False
    if _PATTERNS["code_signs"].search(plain) is not None:
        return False
    return _PATTERNS["cut"].search(plain) is None


def marked(text: str, names: frozenset[str]) -> str:
    """Put names of parameters in code marks, where they cannot be words of English.

    Args:
        text: A sentence.
        names: Names of the parameters.
    """

    def mark(match: re.Match[str]) -> str:
        word = match[0]
        if word not in names or _is_word_there(match):
            return word
        return f"`{word}`"

    parts = re.split(r"(`[^`]*`)", text)
    for place, part in enumerate(parts):
        if not part.startswith("`"):
            parts[place] = _PATTERNS["identifier"].sub(mark, part)
    marked_text = "".join(parts)
    if "a" in names:
        marked_text = _PATTERNS["lone_a"].sub("`a`", marked_text)

    def mark_list(match: re.Match[str]) -> str:
        return _marked_list(match[0], names)

    return _NAMES_LISTED.sub(mark_list, marked_text)


def _is_word_there(match: re.Match[str]) -> bool:
    """Tell whether a name is a word of English where it stands."""
    word = match[0]
    if word.lower() in _ENGLISH:
        return True
    before = match.string[: match.start()]
    if before.endswith(_BEFORE_LETTERS):
        return True
    if not word.islower() or len(word) < _SHORTEST_WORD:
        return False
    if is_english(word):
        return True
    return word.isalpha() and _is_used_as_word(match)


_BEFORE_LETTERS = ("Student ", "student ", "Student's ", "student's ")


def _is_used_as_word(match: re.Match[str]) -> bool:
    """Tell whether the text beside a name makes it a word: "to extrapolate", "symmetric/…"."""
    text = match.string
    before = text[: match.start()]
    after = text[match.end() :]
    if before.endswith("/") or after.startswith("/"):
        return True
    if re.search(r"\bto $", before) is not None:
        return True
    if re.match(r" [a-z]{3,}(?<!s)s\b(?! )?", after) is None:
        return False
    predicate = r" (?:is|was|has|as|does|must|arguments?|parameters?|keywords?)\b"
    return re.match(predicate, after) is None


def _marked_list(listed: str, names: frozenset[str]) -> str:
    """Return a list of names in code marks where one of them has marks."""
    if "`" not in listed:
        return listed
    without_joints = listed.replace(" and ", " ").replace(" or ", " ")
    words = re.findall(r"\w+", without_joints)
    if not names.issuperset(words):
        return listed
    return re.sub(r"`?\b(?!and\b|or\b)(\w+)\b`?", r"`\1`", listed)


_NAMES_LISTED = re.compile(
    r"(?<![\w`])`?\w+`?(?:, `?\w+`?)*,? (?:and|or) `?\w+`?(?![\w`-])"
)


_ENGLISH = _TABLE["english"] | phrases.VERBS | language.STOP_WORDS
