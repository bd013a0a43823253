"""Remedies: a reason for leaving a document or a question out, and what to do about it."""

import re
from collections.abc import Iterable

from pydantic import BaseModel

from rubric_synth.config import SynthConfig
from rubric_synth.document import RejectionReason

_KEY = re.compile(r"\b(?:collect|context|quality|synthesiser)(?:\.\w+)+")
_REMEDY: dict[str, str] = {
    RejectionReason.UNREADABLE: "see that this user may read the files",
    RejectionReason.OUTSIDE_FOLDER: (
        "name the folder that the links lead to as a source of its own, or copy the "
        "files"
    ),
    RejectionReason.UNSUPPORTED_TYPE: (
        "write tables such as CSV as .jsonl, for .py files install their package and "
        "collect `python:PACKAGE`, and give other files in a kind that `rubric-synth "
        "collect --help` names"
    ),
    RejectionReason.WRONG_ENCODING: "save the files as UTF-8",
    RejectionReason.BROKEN_RECORD: (
        "name the fields of the records in collect.fields of the configuration, or "
        "mend them"
    ),
    RejectionReason.DUPLICATE_ID: (
        "name the field with an id of its own in collect.fields.id"
    ),
    RejectionReason.IMPORT_FAILED: (
        "install what its detail names into this environment (`uv pip install NAME`), "
        "or put the folder that holds it on PYTHONPATH"
    ),
    RejectionReason.BROKEN_PDF: (
        "save the PDF files again with a program that can open them"
    ),
    RejectionReason.ENCRYPTED: "save the PDF files without a password",
    RejectionReason.NO_TEXT_LAYER: (
        "run text recognition (OCR) over the scanned PDF files"
    ),
    RejectionReason.NO_UNICODE_MAP: (
        "save the PDF files again with fonts that name their characters (in LaTeX "
        "\\usepackage{cmap}), or run text recognition (OCR) over them"
    ),
    RejectionReason.CONVERSION_FAILED: (
        "raise collect.conversion_timeout_s in the --config file, or convert the "
        "files to text"
    ),
    RejectionReason.MISSING_EXTRA: (
        "run the command that rejected.jsonl gives for these files"
    ),
    RejectionReason.NO_PROGRAM: (
        "put a conf.py, mkdocs.yml or pyproject.toml with the project's name beside the pages, "
        "or write `.. program::` before options"
    ),
    RejectionReason.OTHER_LANGUAGE: (
        "add the language to collect.languages in the --config file"
    ),
    RejectionReason.TOO_SHORT: "lower collect.min_document_words in the --config file",
    RejectionReason.TOO_LONG: (
        "divide the files, or raise collect.max_document_bytes in the --config file"
    ),
    RejectionReason.NEAR_DUPLICATE: (
        "raise collect.near_duplicate_jaccard or collect.near_duplicate_containment, "
        "of API entries collect.near_duplicate_cosine, where these are no copies"
    ),
    RejectionReason.NO_PARAMETERS: (
        "document parameters in the docstrings (numpydoc, Google or Sphinx), or "
        "choose a package that does"
    ),
    RejectionReason.NO_SUMMARY: (
        "begin each docstring with a sentence that says more than the object's name"
    ),
    RejectionReason.NOT_ENGLISH: (
        "let a language model write the tasks (synthesiser.type llm): the rules and "
        "their word lists are of English"
    ),
    RejectionReason.TOO_FEW_FACTS: (
        "let a language model write the tasks (synthesiser.type llm): without one "
        "only plain sentences and well-kept API pages give facts, and most papers, "
        "notebooks and printed manuals give too few; of a Python package collect "
        "`python:PACKAGE` beside its manual"
    ),
    RejectionReason.NO_PASSAGE: (
        "collect longer documents, or lower synthesiser.min_passage_words in the "
        "--config file"
    ),
    RejectionReason.NO_QUESTION: (
        "collect documents whose passages make three claims in complete English "
        "sentences, or give a --config file with a model that writes "
        "(synthesiser.type llm, synthesiser.model; configs/synth has some)"
    ),
    RejectionReason.STAGE_FAILED: "see rejected.jsonl for the place of the fault",
    RejectionReason.MODEL_UNAVAILABLE: (
        "see that the model answers, and run again; of a `bad_request`, "
        "rejected.jsonl names the field that the server refuses: set `schema`, "
        "`temperature: null` or `max_tokens` of synthesiser.model"
    ),
    RejectionReason.MODEL_REFUSED: "choose another model",
    RejectionReason.REPLY_TRUNCATED: (
        "raise synthesiser.model.max_tokens in the --config file; where the context "
        "is full, lower synthesiser.document_chars"
    ),
    RejectionReason.REPLY_NOT_JSON: (
        "choose a model and a server that keep to a JSON schema"
    ),
    RejectionReason.REPLY_OFF_SCHEMA: (
        "choose a model and a server that keep to a JSON schema"
    ),
    RejectionReason.PASSAGE_NOT_IN_DOCUMENT: "choose a stronger model",
    RejectionReason.EMPTY_QUESTION: "choose a stronger model",
    RejectionReason.TOO_FEW_CRITERIA: (
        "collect documents that say more, have a model write (synthesiser.model in "
        "the --config file), or lower quality.min_criteria in it"
    ),
    RejectionReason.TOO_MANY_CRITERIA: (
        "raise quality.max_criteria in the --config file"
    ),
    RejectionReason.LOW_TOTAL_WEIGHT: (
        "lower quality.min_total_weight in the --config file"
    ),
    RejectionReason.NEGATIVE_WEIGHT: "choose a stronger model",
    RejectionReason.WEIGHT_OUT_OF_RANGE: "choose a stronger model",
    RejectionReason.MISSING_FIELD: "choose a stronger model",
    RejectionReason.FIELD_TOO_LONG: "choose a stronger model",
    RejectionReason.REPEATED_CRITERION: "choose a stronger model",
    RejectionReason.INVALID_SCHEMA: "choose a stronger model",
    RejectionReason.NO_REFERENCE: "choose a stronger model",
    RejectionReason.NOT_SELF_CONTAINED: "choose a stronger model",
    RejectionReason.NO_CLAIM: (
        "choose a stronger model: each description has to say what a full answer "
        "states, and not only what it is about"
    ),
    RejectionReason.LEAK: (
        "choose a stronger model, or raise quality.leak_words in the --config file"
    ),
    RejectionReason.NO_CONTEXT: (
        "collect more documents: no section of those that the split may look up "
        "shares a word with the question"
    ),
    RejectionReason.DUPLICATE_QUESTION: (
        "lower synthesiser.questions_per_document, or raise "
        "quality.near_duplicate_question_jaccard in the --config file"
    ),
    RejectionReason.DUPLICATE_PASSAGE: (
        "collect documents that do not hold parts of one another, or raise "
        "quality.near_duplicate_passage_containment in the --config file"
    ),
    RejectionReason.JUDGE_UNAVAILABLE: "see that the judge answers, and run again",
    RejectionReason.JUDGE_INVALID: (
        "choose a judge that keeps to a JSON schema, or raise quality.judge.max_tokens"
    ),
    RejectionReason.LOW_REFERENCE_REWARD: (
        "lower quality.min_reference_reward in the --config file, or repair the "
        "synthesiser"
    ),
    RejectionReason.REWARDED_EMPTY_ANSWER: (
        "choose a stricter judge, or raise quality.max_empty_reward in the --config "
        "file"
    ),
    RejectionReason.REWARDED_QUESTION_ECHO: (
        "choose a stricter judge, or raise quality.max_echo_reward in the --config file"
    ),
    RejectionReason.REWARDED_WRONG_ANSWER: (
        "choose a stronger model, whose criteria tell a right answer from a wrong one"
    ),
    RejectionReason.NOT_DISCRIMINATING: (
        "choose a stricter judge, or lower quality.min_discrimination in the --config "
        "file"
    ),
    RejectionReason.BROKEN_CHECK: (
        "choose a stronger model, or ask for open questions alone "
        "(synthesiser.task_types)"
    ),
}
"""By reason; keys of the configuration are shown with their values."""
_OF_A_MODEL: dict[str, str] = {
    RejectionReason.NO_QUESTION: (
        "collect documents whose passages say what can be asked about, or choose a "
        "stronger model"
    ),
    RejectionReason.TOO_FEW_CRITERIA: (
        "collect documents that say more, choose a stronger model, or lower "
        "quality.min_criteria in the --config file"
    ),
}
"""In place of the above, where a model writes already."""
_NOTHING: dict[str, str] = {
    RejectionReason.BINARY: "nothing, where these are no texts",
    RejectionReason.EMPTY: "nothing, where there is no text in them",
    RejectionReason.EXACT_DUPLICATE: "nothing: another document has the same text",
    RejectionReason.SAME_NAME: (
        "nothing: another entry documents a function of that name"
    ),
    RejectionReason.NOT_FOR_USE: (
        "nothing: by its page or its module nobody calls it directly, or nobody "
        "should any more"
    ),
    RejectionReason.NOT_AN_API_ENTRY: (
        "nothing: a module or class that documents no parameters"
    ),
}
"""Reasons about which there is nothing to do."""


def what_to_do(reason: str, config: SynthConfig) -> str:
    """Say what to do about a reason, with the present value of each key that it names."""
    remedy = _REMEDY.get(reason) or _NOTHING[reason]
    if config.synthesiser.type == "llm":
        remedy = _OF_A_MODEL.get(reason, remedy)
    return _KEY.sub(lambda key: key[0] + _value(key[0], config), remedy)


def _value(key: str, config: SynthConfig) -> str:
    """Return the value of a key in brackets; "" for a part, and for one of another synthesiser."""
    value: object = config
    for name in key.split("."):
        value = getattr(value, name, None)
    return (
        ""
        if value is None or isinstance(value, BaseModel | tuple)
        else f" (now {value})"
    )


def remedies(reasons: Iterable[str]) -> str:
    """Say what to do about some reasons, each thing once; "" where nothing can be done."""
    return "; ".join(
        dict.fromkeys(_REMEDY[reason] for reason in reasons if reason in _REMEDY)
    )
