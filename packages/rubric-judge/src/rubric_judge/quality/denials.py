"""Denials of English sentences, for answers that say the opposite of a good one."""

import re

_CODE = re.compile(r"`[^`]*`")
_LEAD = re.compile(
    r"(?:[-*•] |\d+[.)] )?"
    r"(?:(?:Also|Consequently|Conversely|Finally|For example|For instance|Furthermore|Hence|Here|"
    r"However|In addition|In contrast|In general|In particular|In practice|Instead|Moreover|"
    r"Similarly|That is|Then|Therefore|Thus), )?(?:Note that )?"
)
"""Matches what stands before a statement and states nothing."""
_AUXILIARIES = (
    "is|are|was|were|can|could|may|might|must|will|would|shall|should|has|have|had"
)
_AUXILIARY = re.compile(rf"\b(?:{_AUXILIARIES})\b")
_DENIED = re.compile(
    rf"\b(?:(can)(?:not|['’]t)|({_AUXILIARIES}|do|does|did)(?: not|n['’]t))\b"
)
_DENYING = re.compile(
    r"\b(?:not|no|none|nor|neither|never|nothing|nobody|only)\b|n['’]t\b", re.IGNORECASE
)
_COUNTING = re.compile(
    r"\b(?:all|any|both|each|either|every|few|many|most|much|several|some)\b",
    re.IGNORECASE,
)
"""Matches words that a "not" after them may or may not deny: "all values are not kept"."""
_BOUND_TO_DENIAL = re.compile(r"\b(?:any|at all|either|yet)\b")
"""Matches words that cannot stand without the "not" before them."""
_SUBORDINATE = re.compile(
    r"\b(?:if|unless|when|whenever|where|whereas|while|because|since|although|though|until|once|"
    r"that|which|who|whose|whether|as|than|in case)\b",
    re.IGNORECASE,
)
_SECOND_STATEMENT = re.compile(
    r"; |, (?:and|but|so) (?:(?:it|they|this|these|the)\b|`)"
)
"""Matches where a sentence states something else, which its first verb does not deny."""
_SECOND_VERB = re.compile(
    rf" (?:and|or|but) (?:(?:then|also|therefore) )?"
    rf"(?:(?:{_AUXILIARIES}|does|do|it|they|this|these|that|there)\b"
    r"|[a-z]+s (?:(?:the|an?|it|its|their|all|each)\b|`))"
)
"""Matches where the main clause has another verb."""
_NO_VERBS = (
    "always|arguments|arrays|as|attributes|classes|elements|entries|files|functions|gas|lens|"
    "methods|numbers|objects|options|parameters|points|series|sometimes|species|values|variables"
)
_SUBJECT_AND_VERB = re.compile(
    rf"(?:It|This|That|He|She|`[^`]*`) (?!(?:{_AUXILIARIES}|does|{_NO_VERBS})\b)"
    rf"([a-z]+(?<![isu])s)\b(?! (?:{_AUXILIARIES}|of|do)\b)"
)
"""Matches subjects after which a word in -s is a verb and no plural."""
_PARTICIPLE = re.compile(r" (?:been|\w+(?:ed|en|wn|lt|pt|nt))\b")
_BARE_HAVE = {
    "has": "does not have",
    "have": "do not have",
    "had": "did not have",
}
_NEEDS_ES = ("ch", "sh", "ss", "x", "z", "o")
_ES = ("ches", "shes", "sses", "xes", "zes", "oes")


def denial(sentence: str) -> str:
    """Return a sentence that says that another one is false, by the least change of it.

    The main verb is denied where it is found: a "not" goes, or comes after the auxiliary, and "it
    takes" becomes "it does not take". A "not" in another clause would leave the main statement as
    it is ("it fails if `a` is not positive"), or deny a condition and nothing else. So sentences
    that begin with a condition, state several things, count their subject ("all values are kept")
    or have a verb that is not found are said not to be true.

    Args:
        sentence: one sentence that states something.
    """
    lead = _LEAD.match(sentence)
    start = lead.end() if lead else 0
    statement = sentence[start:]
    denied = _with_verb_denied(statement)
    if denied is None:
        it = "it" if sentence[:start].endswith((", ", "that ")) else "It"
        denied = f"{it} is not true that {small_first(statement)}"
    return f"{sentence[:start]}{denied}"


def small_first(sentence: str) -> str:
    """Return a sentence with its first letter lowered, unless its word is a name or an acronym."""
    first = sentence.split(maxsplit=1)[0] if sentence else ""
    is_ordinary = first == "A" or first[1:].rstrip(",;:").islower()
    if not is_ordinary:
        return sentence
    return f"{sentence[:1].lower()}{sentence[1:]}"


def _with_verb_denied(statement: str) -> str | None:
    """Return a statement with its main verb denied; None where that is not to be found."""
    masked = _CODE.sub(lambda code: f"`{'_' * (len(code[0]) - 2)}`", statement)
    subordinate = _SUBORDINATE.search(masked, 1)
    clause = masked[: subordinate.start()] if subordinate else masked
    begins_below = _SUBORDINATE.match(masked) and not masked.startswith("That ")
    if begins_below or _SECOND_STATEMENT.search(masked) or _SECOND_VERB.search(clause):
        return None
    denied = _DENIED.search(clause)
    others = clause
    if denied:
        others = f"{clause[: denied.start()]}{clause[denied.end() :]}"
    if _DENYING.search(others):
        return None
    if denied:
        is_bound = _BOUND_TO_DENIAL.search(others)
        return None if is_bound else _affirmed(statement, denied)
    verb = _SUBJECT_AND_VERB.match(clause)
    if verb:
        base = _base_form(verb[1])
        return f"{statement[: verb.start(1)]}does not {base}{statement[verb.end() :]}"
    auxiliary = _AUXILIARY.search(clause)
    if auxiliary is None or _COUNTING.search(clause[: auxiliary.start()]):
        return None
    word = auxiliary[0]
    after = statement[auxiliary.end() :]
    denial = "cannot" if word == "can" else f"{word} not"
    if word in _BARE_HAVE and not _PARTICIPLE.match(after):
        denial = _BARE_HAVE[word]
    return f"{statement[: auxiliary.start()]}{denial}{after}"


def _affirmed(statement: str, denied: re.Match[str]) -> str:
    """Return a statement without its denial: "does not take" is "takes"."""
    before = statement[: denied.start()]
    after = statement[denied.end() :]
    word = denied[1] or denied[2]
    verb = re.match(r" ([a-z]+)", after)
    if word not in {"do", "does"} or verb is None:
        return f"{before}{word}{after}"
    form = verb[1] if word == "do" else _third_person(verb[1])
    return f"{before}{form}{after[verb.end() :]}"


def _third_person(verb: str) -> str:
    if verb == "have":
        return "has"
    if verb.endswith("y") and verb[-2:-1] not in set("aeiou"):
        return f"{verb[:-1]}ies"
    ending = "es" if verb.endswith(_NEEDS_ES) else "s"
    return f"{verb}{ending}"


def _base_form(verb: str) -> str:
    if verb.endswith("ies") and len(verb) > len("lies"):
        return f"{verb.removesuffix('ies')}y"
    return verb[:-2] if verb.endswith(_ES) else verb[:-1]
