"""Words and phrases of English technical prose that tell what a sentence or a heading is.

Everything here is a judgement of the rule-based stages, kept in one place so that it can be read
and argued with.
"""

from __future__ import annotations

import re
from typing import Final

from rubric_synth.language import word_set

CAVEAT_MARKERS: Final = tuple(
    sorted(
        word_set(
            """note only must cannot not however unless otherwise raises raised warning although
            requires assumes ignored undefined instead"""
        )
    )
)
"""Words that mark a sentence as a limit or a warning."""

VERBS: Final = word_set(
    """accumulate add adjust advance allocate analyze append apply approximate array assemble
    assert assign bin bind bound break broadcast build calculate call cast change check choose
    clean clip close cluster combine compare compile compute concatenate configure conjugate
    construct continue convert convolve copy correlate count create customize cut decimate
    decode decompose deconvolve define delete derive design detect determine diagonalize
    differentiate discretize divide do downsample draw drop dump encode enforce ensure estimate
    evaluate exclude execute expand export extend extract factor factorize fail fill filter find
    fit flatten flip format generate get give group guess implement import indicate initialize
    insert instantiate integrate interpolate interpret invert iterate join keep label linearize
    list load locate look mask match maximize measure merge minimize modify move multiply
    normalize obtain open optimize order pack pad parse partition perform permute pick plot
    predict prepare print process produce project propagate provide put query raise randomly
    read rebuild reconstruct rectify recursively reduce reflect register remove rename render
    repeat replace represent resample reseed reset reshape restore retrieve reverse roll rotate
    round run safely sample save scale scan search select send separate set shift show shuffle
    simulate skip slice smooth solve sort split squeeze stack standardize store sum suppress
    swap take test trace transform translate transpose traverse trim truncate try unpack unwrap
    update upsample use validate verify view warn whiten wrap write yield zoom"""
)
"""Verbs, and adverbs before them, that open the summary of a function, in their base form."""

PROSE_VERBS: Final = word_set(
    """accompany achieve allow appear arise assume become begin behave belong bring comprise consist
    contain contribute decay depend describe differ disappear emerge employ enable encourage exhibit
    exist explain follow happen hold imply improve inhibit involve keep lead lie maintain make
    occupy occur possess prevent promote reach remain require respond return reveal rise seem serve
    speak suffer suggest take teach tell tend undergo utilize vary weaken"""
)
"""Verbs that are hardly ever nouns: a phrase that holds one is cut out of a clause."""

ADVERBS: Final = word_set(
    """afterwards again ago alike almost alone aloud apart aside away together back elsewhere enough
    ever everywhere far fast fastest faster forever forward further hardly hence hereby inside later
    maybe meanwhile moreover nearby nowadays often once outside perhaps quite rarely rather seldom
    sometimes somewhat soon still therefore thereby today tomorrow twice upward downward well yet"""
)
"""Adverbs that do not show it by their ending."""

BARE_TYPES: Final = word_set(
    """int integer float double complex bool boolean str string array array_like arraylike ndarray
    object scalar dtype list tuple dict callable sequence none true false function any"""
)
"""Words of a documented type that say nothing of a parameter's meaning."""

GENERIC_HEADINGS: Final = word_set(
    """abstract algorithm algorithms analysis application applications background basics concept
    concepts conclusion conclusions content contents definition definitions description details
    discussion example examples features general implementation information input inputs
    interpretation introduction method methodology methods model models motivation note notes
    options output outputs overview parameters preface principles procedure purpose results scope
    setup summary syntax the theory usage use"""
)
"""Words of headings that name no subject."""

NOT_UNITS: Final = word_set("d and or of in to the a is are was for from with by at on as")
"""Words after a number that are no unit."""

SKIPPED_HEADING: Final = re.compile(
    r"references|bibliography|acknowledg|glossary|further reading|see also|footnotes"
    r"|learning objective|exercise|problem|key terms|conceptual question|review question"
    r"|AP® course|check your|critical thinking|multiple choice|resources|external link"
    r"|licen[cs]e|disclaimer|author|publication date|contact|errata|preface|^about"
    r"|table of contents|installation|changelog|release notes|download",
    re.IGNORECASE,
)
"""Headings of sections without claims about a subject."""

CONNECTIVE: Final = re.compile(
    r"^(?:however|therefore|thus|hence|in addition|additionally|moreover|furthermore|for example"
    r"|for instance|finally|similarly|in contrast|in fact|in general|in particular|consequently"
    r"|as a result|indeed|nevertheless|first|second|third|also|note that|on the other hand"
    r"|instead),?\s+",
    re.IGNORECASE,
)
"""Openings that can be left off a sentence."""

DEPENDENT: Final = re.compile(
    r"^(?:this|these|those|that|it|its|they|their|he|she|his|her|him|such|here|then|so|and"
    r"|but|or|both|another|other|others|one (?:of|example)|if so|to do|there(?! (?:is|are)\b)"
    r"|(?:in|at|for|from|by|with) (?:this|these|that)|in the (?:above|following|previous)"
    r"|the (?:above|former|latter|following|previous|next|same|first|second|third|last|other)"
    r"|the (?:two|three|result|question|figure|table|equation)|where|which|who|whose"
    r"|as (?:shown|seen|noted|described|mentioned|discussed|you|we)|we|you|i|now|again|next"
    r"|let|see|recall|consider|suppose|assume|imagine|try|click|select|note"
    r"|figure|table|caption|(?:when|because|while|although|after|once) (?:this|these|it)"
    r"|when (?:you|we)|because of this)\b",
    re.IGNORECASE,
)
"""Openings of a sentence that makes no sense alone."""

API_DEPENDENT: Final = re.compile(
    r"^(?:this|these|it|its|they|such|here|then|thus|hence|so|and|but|for example|see|refer"
    r"|returns?|however,? (?:this|it|these)|in (?:this|these|either)"
    r"|the (?:above|former|latter|following|example)|as (?:above|noted))\b",
    re.IGNORECASE,
)
"""The same for the short notes of an API entry."""

NOT_A_CLAIM: Final = re.compile(
    r"[${}\\_|<>=#@`\[\]]|https?:|\(\s*\)|\s[,.]|\d\.[A-Z]"
    r"|\b(?:figure|fig|table|equation|eq|section|chapter|appendix|module|above|below|page)\b"
    r"|\b(?:essential knowledge|enduring understanding|click|caption|tutorial|exercise)\b"
    r"|\b(?:learning|previously|earlier|you|your|we|us|our|i|my)\b"
    r"|\b(?:in|by|of|to|from|see|with|for|at|and|or)\s*[,.;)]",
    re.IGNORECASE,
)
"""Formulas, code, lost references and talk about the text itself."""

CITATION: Final = re.compile(r"\s*\((?:e\.g\.\s*|see\s+)?[A-Z][^()]{2,80}\b(?:19|20)\d\d[a-z]?\)")
"""An author and a year in parentheses."""

GLUED_HEADING: Final = re.compile(r"^(?:[A-Z][\w-]*\s+(?:(?:of|from|the|and|in|for|to|a)\s+)*){4,}")
"""A heading that ran into its first sentence."""

LEAD_IN: Final = re.compile(
    r"^(?:(?:also |please )?(?:note|notice|be aware|beware|remember)(?: also)? that|note,)\s+",
    re.IGNORECASE,
)
"""Openings that announce a caveat."""

LOST_REFERENCE: Final = re.compile(
    r"\b(?:see|to|by|of|from|in|for|consult)\s*[.,;)]|consult for|examples? below"
)
"""What a removed citation leaves behind."""
