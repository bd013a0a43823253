"""What a user can do about each reason for leaving out."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from pydantic import BaseModel

from rubric_synth.rejection import RejectionReason

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rubric_synth.config import SynthConfig


_KEY: Final = re.compile(r"\b(?:collect|quality|synthesiser)(?:\.\w+)+")

_UNREAD: Final = (
    RejectionReason.UNREADABLE,
    RejectionReason.WRONG_ENCODING,
    RejectionReason.BROKEN_RECORD,
    RejectionReason.BROKEN_PDF,
    RejectionReason.ENCRYPTED,
    RejectionReason.NO_TEXT_LAYER,
    RejectionReason.CONVERSION_FAILED,
    RejectionReason.MISSING_EXTRA,
)

_STRONGER: Final = "choose a stronger model"
_STRUCTURED: Final = "choose a model and a server that keep to a JSON schema"

_REMEDIES: Final = {
    # collect
    RejectionReason.UNREADABLE: "see that this user may read the files",
    RejectionReason.OUTSIDE_FOLDER: (
        "name the folder that the links lead to as a source of its own, or copy the files"
    ),
    RejectionReason.UNSUPPORTED_TYPE: (
        "give files of a kind that `rubric-synth collect --help` names"
    ),
    RejectionReason.WRONG_ENCODING: "save the files as UTF-8",
    RejectionReason.BROKEN_RECORD: (
        "name the fields of the records in collect.fields of the configuration, or mend them"
    ),
    RejectionReason.DUPLICATE_ID: "name the field with an id of its own in collect.fields.id",
    RejectionReason.IMPORT_FAILED: "install the package so that Python can import it",
    RejectionReason.BROKEN_PDF: "save the PDF files again with a program that can open them",
    RejectionReason.ENCRYPTED: "save the PDF files without a password",
    RejectionReason.NO_TEXT_LAYER: "run text recognition (OCR) over the scanned PDF files",
    RejectionReason.CONVERSION_FAILED: (
        "raise collect.conversion_timeout_s in the --config file, or convert the files to text"
    ),
    RejectionReason.MISSING_EXTRA: "run the command that rejected.jsonl gives for these files",
    RejectionReason.OTHER_LANGUAGE: "add the language to collect.languages in the --config file",
    RejectionReason.TOO_SHORT: "lower collect.min_document_words in the --config file",
    RejectionReason.TOO_LONG: (
        "divide the files, or raise collect.max_document_bytes in the --config file"
    ),
    RejectionReason.NEAR_DUPLICATE: (
        "raise collect.near_duplicate_jaccard, of API entries collect.near_duplicate_cosine, "
        "where these are no copies"
    ),
    # analyse, synthesise, enrich
    RejectionReason.NO_PARAMETERS: (
        "document parameters in the docstrings (numpydoc, Google or Sphinx), "
        "or choose a package that does"
    ),
    RejectionReason.NO_SUMMARY: "begin each docstring with a sentence",
    RejectionReason.NO_PASSAGE: (
        "collect longer documents, or lower synthesiser.min_passage_words in the --config file"
    ),
    RejectionReason.NO_QUESTION: "collect documents in complete English sentences",
    RejectionReason.STAGE_FAILED: "see rejected.jsonl for the place of the fault",
    RejectionReason.MODEL_UNAVAILABLE: (
        "see that the model answers, and run again; of a `bad_request`, which may be a document "
        "too long for the server, lower synthesiser.document_chars"
    ),
    RejectionReason.MODEL_REFUSED: "choose another model",
    RejectionReason.REPLY_TRUNCATED: "raise synthesiser.model.max_tokens in the --config file",
    RejectionReason.REPLY_NOT_JSON: _STRUCTURED,
    RejectionReason.REPLY_OFF_SCHEMA: _STRUCTURED,
    RejectionReason.PASSAGE_NOT_IN_DOCUMENT: _STRONGER,
    # quality
    RejectionReason.EMPTY_QUESTION: _STRONGER,
    RejectionReason.TOO_FEW_CRITERIA: (
        "collect documents that say more, or lower quality.min_criteria in the --config file"
    ),
    RejectionReason.TOO_MANY_CRITERIA: "raise quality.max_criteria in the --config file",
    RejectionReason.LOW_TOTAL_WEIGHT: "lower quality.min_total_weight in the --config file",
    RejectionReason.NEGATIVE_WEIGHT: _STRONGER,
    RejectionReason.WEIGHT_OUT_OF_RANGE: _STRONGER,
    RejectionReason.MISSING_FIELD: _STRONGER,
    RejectionReason.FIELD_TOO_LONG: _STRONGER,
    RejectionReason.REPEATED_CRITERION: _STRONGER,
    RejectionReason.INVALID_SCHEMA: _STRONGER,
    RejectionReason.NO_REFERENCE: _STRONGER,
    RejectionReason.NOT_SELF_CONTAINED: _STRONGER,
    RejectionReason.LEAK: f"{_STRONGER}, or raise quality.leak_words in the --config file",
    RejectionReason.DUPLICATE_QUESTION: (
        "lower synthesiser.questions_per_document, or raise "
        "quality.near_duplicate_question_jaccard in the --config file"
    ),
    RejectionReason.JUDGE_UNAVAILABLE: "see that the judge answers, and run again",
    RejectionReason.JUDGE_INVALID: (
        "choose a judge that keeps to a JSON schema, or raise quality.judge.max_tokens"
    ),
    RejectionReason.LOW_REFERENCE_REWARD: (
        "lower quality.min_reference_reward in the --config file, or repair the synthesiser"
    ),
    RejectionReason.REWARDED_EMPTY_ANSWER: (
        "choose a stricter judge, or raise quality.max_empty_reward in the --config file"
    ),
    RejectionReason.REWARDED_QUESTION_ECHO: (
        "choose a stricter judge, or raise quality.max_echo_reward in the --config file"
    ),
    RejectionReason.NOT_DISCRIMINATING: (
        "choose a stricter judge, or lower quality.min_discrimination in the --config file"
    ),
    RejectionReason.BROKEN_CHECK: (
        f"{_STRONGER}, or ask for open questions alone (synthesiser.task_types)"
    ),
}


_NOTHING: Final = {
    RejectionReason.BINARY: "nothing, where these are no texts",
    RejectionReason.EMPTY: "nothing, where there is no text in them",
    RejectionReason.EXACT_DUPLICATE: "nothing: another document has the same text",
    RejectionReason.SAME_NAME: "nothing: another entry documents a function of that name",
    RejectionReason.NOT_AN_API_ENTRY: "nothing: a module or class that documents no parameters",
}


def what_to_do(reason: str, config: SynthConfig) -> str:
    """Say what to do about a reason, with the present value of each key that it names."""
    known = RejectionReason(reason)
    said = _REMEDIES.get(known) or _NOTHING[known]
    return _KEY.sub(lambda key: key[0] + _value(key[0], config), said)


def _value(key: str, config: SynthConfig) -> str:
    """Return the value of a key in brackets; "" for a part, and for one of another synthesiser."""
    value: object = config
    for name in key.split("."):
        value = getattr(value, name, None)
    return "" if value is None or isinstance(value, BaseModel | tuple) else f" (now {value})"


def remedies(reasons: Iterable[str]) -> str:
    """Say what to do about some reasons, each thing once; "" where nothing can be done."""
    found = (_REMEDIES.get(RejectionReason(reason)) for reason in reasons)
    return "; ".join(dict.fromkeys(remedy for remedy in found if remedy))


def what_to_do_about_unread(counts: Mapping[str, int]) -> str:
    """Say, in one line, what would let documents be read that could not be; "" where all were."""
    found = {reason: counts[reason] for reason in _UNREAD if reason in counts}
    if not found:
        return ""
    reasons = ", ".join(f"{count} {reason}" for reason, count in found.items())
    return f"not read: {reasons}. What to do: {remedies(found)}"
