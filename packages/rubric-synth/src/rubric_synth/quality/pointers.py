"""Turns of phrase that point at a text which the reader does not have, as patterns with names.

English. A pattern is only worth having if it is nearly always right: "the passage of time",
"this study" behind a sentence that sets one up, and "Table 1" where the question brings the table
are no pointers.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from rubric_judge.lexical.words import FUNCTION_WORDS


class Pointer(NamedTuple):
    """One way to point away from the text."""

    name: str
    hints: frozenset[str]
    """A text that holds none of these words, in lower case, is not searched."""
    points: Callable[[str], bool]
    """Whether a text, without its code and formulas, points away."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_ADJECTIVES = (
    "(?:(?:given|provided|supplied|source|original|reading|present|current|accompanying|attached"
    "|quoted|whole|entire|full) )*"
)
_CALLED_SO = "passage|excerpt|manuscript|source (?:text|document|material|passage|article)"
"""What nobody calls his own subject, so that it takes no more than a "the"."""
_PRINTED = (
    "text|document|paper|article|chapter|section|subsection|textbook|tutorial|handbook|paragraph"
    "|lecture notes"
)
_WORKS = "study|work|report|survey|research|review|thesis|book|manual|guide|lecture"
_SAYS = (
    "says?|said|stat(?:es?|ed)|describ(?:es?|ed)|argu(?:es?|ed)|discuss(?:es|ed)?"
    "|mention(?:s|ed)?|explain(?:s|ed)?|claim(?:s|ed)?|propos(?:es?|ed)|suggest(?:s|ed)?"
    "|report(?:s|ed)|conclud(?:es?|ed)|not(?:es|ed)|emphasi[sz](?:es?|ed)|highlight(?:s|ed)?"
    "|recommend(?:s|ed)?|address(?:es|ed)|outlin(?:es?|ed)|introduc(?:es?|ed)|present(?:s|ed)"
)
_SAID = (
    "described|discussed|mentioned|presented|introduced|explained|outlined|stated|noted|given"
    "|provided|reported|proposed|defined|listed|shown|illustrated|covered|derived|specified"
)
_SHOWN = "figure|diagram|graph|plot|chart|image|picture|illustration|photograph|table|map"
_CARRIED_BY = re.compile('[:\n"“`]')
"""What brings along the thing that a question points to."""


def _first_sentence(text: str) -> int:
    """Return where the first sentence ends."""
    end = re.search(r"[.?!](?=\s+[A-Z\"“(`$])|\n", text)
    return end.end() if end else len(text)


def _brings(text: str, start: int) -> bool:
    return _CARRIED_BY.search(text, start) is not None


def _unannounced(pattern: re.Pattern[str]) -> Callable[[str], bool]:
    """Match where the noun, a group, neither stands earlier in the text nor is brought along."""

    def points(text: str) -> bool:
        return any(
            not _brings(text, found.end()) and not _is_announced(found, text)
            for found in pattern.finditer(text)
        )

    return points


def _is_announced(found: re.Match[str], text: str) -> bool:
    noun = next(group for group in found.groups() if group).rstrip(".s")
    return re.search(rf"\b{re.escape(noun)}", text[: found.start()], re.IGNORECASE) is not None


def _at_the_start(pattern: re.Pattern[str]) -> Callable[[str], bool]:
    """Match in the first sentence only: further on, it may point at what the text itself says."""

    def points(text: str) -> bool:
        end = _first_sentence(text)
        return any(not _brings(text, found.end()) for found in pattern.finditer(text, 0, end))

    return points


def _with_nothing_behind(pattern: re.Pattern[str]) -> Callable[[str], bool]:
    def points(text: str) -> bool:
        return any(not _brings(text, found.end()) for found in pattern.finditer(text))

    return points


def _anywhere(pattern: re.Pattern[str]) -> Callable[[str], bool]:
    return lambda text: pattern.search(text) is not None


def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


_SOURCE = Pointer(
    "source",
    _words("passage passages excerpt excerpts manuscript manuscripts source"),
    _unannounced(
        _compiled(
            rf"\b(?:the|this|that|these) {_ADJECTIVES}({_CALLED_SO})s?\b"
            r"(?! (?:of|to|through|from|between|across|along|over|into|time)\b)"
        )
    ),
)
_ACCORDING = Pointer(
    "according_to_source",
    _words(f"{_PRINTED}|{_WORKS}".replace("|", " ")),
    _with_nothing_behind(
        _compiled(
            rf"\b(?:according to|based (?:solely |only )?(?:up)?on|as per) "
            rf"(?:the|this|that) {_ADJECTIVES}(?:{_PRINTED}|{_WORKS})\b(?! of\b)"
            rf"|\b(?:{_SAID}) (?:in|by|within) (?:the|this) {_ADJECTIVES}(?:{_PRINTED})\b"
            rf"|\bthe {_ADJECTIVES}(?:{_PRINTED}) (?:(?:also|further|explicitly) )?(?:{_SAYS})\b"
            rf"|\b(?:do|does|did) (?:the|this) {_ADJECTIVES}(?:{_PRINTED}|study|report) "
            r"(?:say|state|describe|argue|discuss|mention|explain|claim|propose|suggest|report"
            r"|conclude|note|emphasi[sz]e|highlight|recommend|address|outline|introduce|present"
            r"|define|find|show)\b"
            rf"|\bthe (?:present|current|accompanying) (?:{_PRINTED}|study|report)\b"
        )
    ),
)
_THIS_SOURCE = Pointer(
    "this_source",
    _words("this"),
    _unannounced(
        _compiled(
            rf"\bthis ({_PRINTED}|textbook|tutorial|appendix|manual|thesis|book)\b"
            r"(?! of the (?:beam|pipe|wall|wing|blade|river|genome|sky))"
        )
    ),
)
_THIS_WORK = Pointer(
    "this_work",
    _words("this these"),
    # "You compare two diets. How would you design this study?" sets up the study it speaks of.
    _at_the_start(
        _compiled(
            r"\b(?:this|these) (?:study|studies|survey|research|report|investigation"
            r"|experiments?)\b|\b(?:in|of|by|from|throughout|for) this work\b(?! (?:on|with)\b)"
        )
    ),
)
_AUTHOR = Pointer(
    "author",
    _words("author authors researcher researchers investigator investigators"),
    _unannounced(
        _compiled(
            r"\bthe (?:(?:\w+ )?(author)|(researcher|investigator))(?:s|['’]s|s['’])?(?![\w-])"
            r"(?!\s+(?:of|who)\b)"
        )
    ),
)
_REPORTED = Pointer(
    "said_elsewhere",
    _words(
        "above below earlier previously previous preceding before here next last following "
        "aforementioned mentioned described discussed noted stated shown seen"
    ),
    _at_the_start(
        _compiled(
            rf"\bas (?:(?:was|is|were|are|has been|have been|already|previously) )*(?:{_SAID}|seen)"
            r" (?:above|below|earlier|previously|before|here|in (?:the|this)"
            r" (?:previous|preceding|next|last|following|above))\b"
            r"|\bas (?:mentioned|described|discussed|noted|stated|shown|seen)[,.?]"
            rf"|\b(?:{_SAID}) (?:above|below|earlier|previously)\b"
            r"|\b(?:the|this) above\b|\babove[- ](?:mentioned|described|discussed|given)"
            r"|\baforementioned\b"
            r"|\b(?:previous|preceding|earlier) (?:section|chapter|paragraph|lecture|subsection"
            r"|tutorial|exercise|figure|equation|table|example)s?\b"
        )
    ),
)
_NUMBERED = Pointer(
    "numbered_part",
    _words(
        "figure figures fig figs table tables eq eqs eqn eqns equation equations section sections "
        "sec sect subsection subsections chapter chapters chap appendix listing listings §"
    ),
    # "The lot has 3 sections. How long is section 1?" numbers what it has named.
    _unannounced(
        _compiled(
            r"(?<!\ba )\b(figures?|figs?\.?|tables?|eqs?\.?|eqns?\.?|equations?|listings?)"
            r"(?:\s+|(?<=\.))\(?[A-Z]?\d+(?:[.-]\d+)*[a-z]?\)?(?![\w%]|\.\d)"
            r"|(?<!Act )(?<!Act, )(?<!Code )\b(sections?|sect?\.|subsections?|chapters?|chap\.)\s+"
            r"(?:\d+(?:\.\d+)+|\d{1,2})(?![\w%]|\.\d| of\b)"
            r"|\b(appendix)\s+[A-Z\d](?!\w)|(§)\s?\d"
        )
    ),
)
_CITATION_CONTEXT: Final = frozenset(
    "in on interval range list array vector from between domain index at over shape of to".split()  # noqa: SIM905
)
_BRACKETED = re.compile(r"(\w+)[.,;]?\s?\[(?!0)\d{1,3}(?:\s?[,–-]\s?\d{1,3})*\](?![\w(\[^])")
_ET_AL = _compiled(r"\b[A-Z][\w'’-]+,? et al\b\.?(?:,? ?\(?(?:19|20)\d\d[a-z]?\)?)?")
_FEWEST_OWN_WORDS = 5
_WORD = re.compile(r"[^\W\d]{3,}")


def _cites(text: str) -> bool:
    for found in _BRACKETED.finditer(text):
        word = found[1]
        spaced = found[0][len(word)] in " .,;"
        if (
            spaced
            and word[-1].isalpha()
            and len(word) > 1
            and word.lower() not in _CITATION_CONTEXT
        ):
            return True
    if "et al" not in text:
        return False
    # A name may be given to what a question describes; it may not be the whole description.
    rest, count = _ET_AL.subn(" ", text)
    own = [word for word in _WORD.findall(rest) if word.lower() not in _ASKING]
    return bool(count) and len(own) < _FEWEST_OWN_WORDS


_CITATION = Pointer("citation", _words("[ al"), _cites)
_PLACEHOLDER = Pointer(
    "placeholder",
    _words("[ \\ ??"),
    _anywhere(
        _compiled(
            r"\[(?:refs?|references?|citations?|citation needed|cite|figures?|image)\]"
            r"|\\(?:eq|auto|c)?(?:ref|cite[tp]?)\{|(?<=\s)\?\?(?=[\s).,])"
        )
    ),
)
_FOLLOWING = Pointer(
    "shown_elsewhere",
    _words("following shown depicted illustrated displayed plotted pictured labeled labelled"),
    _with_nothing_behind(
        _compiled(
            rf"\b(?:the|this) following (?:{_CALLED_SO}|{_PRINTED}|{_SHOWN}|snippet|listing|code)\b"
            rf"|\b(?:shown|depicted|illustrated|displayed|plotted|labell?ed|pictured) (?:in|on|by) "
            rf"(?:the|this) (?:\w+ )?(?:{_SHOWN})s?\b"
            r"|\b(?:shown|pictured|depicted) (?:below|here)\b"
        )
    ),
)
_OWN_WORK = Pointer(
    "own_work",
    _words("our"),
    _anywhere(
        _compiled(
            r"\bour (?:proposed |new |own )?(?:model|method|approach|paper|study|results|framework"
            r"|algorithm|experiments?|analysis|implementation|simulations?|findings|dataset)\b"
        )
    ),
)
_ASKING: Final = FUNCTION_WORDS | frozenset(
    """
    advantage advantages aim aims analyze analyse answer apply applied argue assess assumption
    assumptions behind benefit benefits cause causes come compare consequence consequences
    consider contribute define describe determine difference differ discuss drawback drawbacks
    effect effects evaluate explain find finding findings function give goal happen help idea
    identify illustrate impact implication implications important justify key kind limitation
    limitations list main mechanism motivation name need occur outline play primary principle
    principles problem propose proposed provide purpose reason reasons result results role show
    significance state step steps strength summarise summarize type underlying understand used
    way ways weakness work works
    """.split()  # noqa: SIM905  # a paragraph is read and changed more easily than a list
)
"""Words that ask, and name no subject."""
_DANGLING_NOUN = (
    "algorithm|application|approach|assumption|case|code|concept|configuration|context|dataset"
    "|definition|derivation|design|device|effect|equation|example|expression|feature|formula"
    "|formulation|framework|function|implementation|instrument|limitation|measurement|mechanism"
    "|method|methodology|model|module|observation|option|package|parameter|phenomenon|problem"
    "|procedure|process|product|program|project|protocol|quantity|relation|relationship|result"
    "|scheme|setting|simulation|situation|software|solution|standard|strategy|structure|system"
    "|task|technique|technology|theorem|theory|tool|topic|value|variable"
)
_THIS_THING = _compiled(rf"\b(?:this|these|such an?|the said) (?:{_DANGLING_NOUN})(?:s|es)?\b")
_ITS = _compiled(r"(?:what (?:is|are)|explain|describe|discuss|list) (?:its|their)\b")


def _dangles(text: str) -> bool:
    """Whether the text opens with a "this method" and has named nothing before that."""
    opening = text[: _first_sentence(text)]
    if _ITS.match(opening.strip()):
        return True
    found = _THIS_THING.search(opening)
    if found is None:
        return False
    before = opening[: found.start()]
    return "`" not in before and all(word.lower() in _ASKING for word in re.findall(r"\w+", before))


_DANGLING = Pointer("dangling_opening", _words("this these such its their said"), _dangles)

GUIDE_POINTERS: Final = (_NUMBERED, _CITATION, _PLACEHOLDER)
"""Of a scoring guide: it speaks to the judge, who has the passage, but has no figures."""
CRITERION_POINTERS: Final = (
    *GUIDE_POINTERS, _SOURCE, _ACCORDING, _THIS_SOURCE, _AUTHOR, _REPORTED, _FOLLOWING, _OWN_WORK,
)  # fmt: skip
"""Of what a criterion asks for."""
QUESTION_POINTERS: Final = (*CRITERION_POINTERS, _THIS_WORK, _DANGLING)
"""Of a question."""
