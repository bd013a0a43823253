"""Readers of what a refusal is about, from its `code`, `type` and `param`, and from known words.

Servers put it into different places: OpenAI's clients know `error.param` and `error.code`, SGLang
puts both beside the message, FastAPI lists the places that are wrong, and some have only the
message. Nothing of it is shown but words that this package knows.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, cast

from rubric_core.files import toml_beside

_KNOWN = toml_beside(__file__, "refusals.toml")
_FIELDS: dict[str, list[str]] = _KNOWN["fields"]
_WANTED = "max_completion_tokens"
_NO_CREDIT = 402
_TOO_LARGE = 413
_OF_REQUEST = frozenset({400, 413, 422, 500})
"""Statuses of refusals that may be about the length; an older llama.cpp answers 500."""
_OF_FIELDS = frozenset({400, 422})

About = Literal["", "credit", "context", "policy", "rate", "field"]


@dataclass(frozen=True)
class Refusal:
    """The cause of a server's refusal, as far as known words name it."""

    about: About = ""
    word: str = ""
    """The known word in its code; "" if only the message said it."""
    field: str = ""
    """The field of the request that the refusal is about, if any."""
    instead: str = ""
    """The field that the server wants in its place."""
    names_model: bool | None = None
    """Whether the refusal is about the model; None if nothing can be read."""


UNREAD = Refusal()


def read_refusal(
    body: Mapping[str, object], *, status: int, sent: Collection[str] = ()
) -> Refusal:
    """Read the body of an answer that is no success.

    Args:
        body: the decoded body; empty if it is no JSON object.
        status: the HTTP status, or its equivalent in the body of a success.
        sent: fields of the request; they count as known names of fields.

    Returns:
        The cause of the refusal; `Refusal.about` is empty if no known word names one.
    """
    words = _RefusalText.of(body)
    names_model = words.names_model if body else False
    credit = words.about("credit")
    if status == _NO_CREDIT or credit is not None:
        return Refusal("credit", credit or "", names_model=names_model)
    if status == 400 and words.about("policy") is not None:  # noqa: PLR2004
        return Refusal("policy", names_model=names_model)
    # Groq's 413 "Request too large" is about a limit by the minute; waiting would bring no answer
    # either.
    context = words.about("context")
    if status == _TOO_LARGE or (status in _OF_REQUEST and context is not None):
        return Refusal("context", context or "", names_model=names_model)
    field = words.field(sent) if status in _OF_FIELDS else ""
    if field in {"max_tokens", _WANTED} and words.wants_other_name:
        return Refusal("field", "", "max_tokens", _WANTED, names_model)
    if field:
        return Refusal("field", "", field, names_model=names_model)
    return Refusal(names_model=names_model)


def status_in_success(error: object) -> int | None:
    """Return the HTTP status that an error in the body of a success stands for.

    Args:
        error: the value of `error` in the body.

    Returns:
        The status; None if no known status is given.
    """
    fields: Mapping[str, object] = {"message": str(error)}
    if isinstance(error, dict):
        fields = cast("dict[str, object]", error)
    code = fields.get("code", fields.get("status"))
    is_number = isinstance(code, int | float) and not isinstance(code, bool)
    status_text = str(int(cast("float", code))) if is_number else str(code)
    if status_text.isdecimal() and 400 <= int(status_text) < 600:  # noqa: PLR2004
        return int(status_text)
    words = _RefusalText.of({"error": fields})
    status_of_kind = {"credit": _NO_CREDIT, "rate": 429, "context": 400, "policy": 400}
    for kind, status in status_of_kind.items():
        if words.about(kind) is not None:
            return status
    return None


def unsendable_field(message: str) -> str:
    """Return the field that a library names when it will not send a request, or ""."""
    return next(_named_in(message), "")


@dataclass(frozen=True)
class _RefusalText:
    """The parts of a refusal's body in which known words are looked for."""

    words: tuple[str, ...]
    param: str
    message: str

    @classmethod
    def of(cls, body: Mapping[str, object]) -> "_RefusalText":
        error = body.get("error")
        fields = body
        if isinstance(error, dict):
            fields = cast("Mapping[str, object]", error)
        message = error if isinstance(error, str) else fields.get("message")
        param = fields.get("param")
        detail = body.get("detail")
        if isinstance(detail, str) and not isinstance(message, str):
            message = detail
        if isinstance(detail, list) and not isinstance(param, str):
            param = _last_place(cast("list[object]", detail))
        words = map(fields.get, ("code", "type", "param", "status", "error_type"))
        return cls(
            words=tuple(
                str(word).lower().removesuffix(".0")
                for word in words
                if isinstance(word, str | int | float)
            ),
            param=re.split(r"[.\[]", param)[0] if isinstance(param, str) else "",
            message=message.lower() if isinstance(message, str) else "",
        )

    def about(self, kind: str) -> str | None:
        """Return the known word of a kind; "" if only the message has one, None if nothing has."""
        known: Mapping[str, list[str]] = _KNOWN[kind]
        for word in self.words:
            if word in known["words"]:
                return word
        is_in_message = any(phrase in self.message for phrase in known["phrases"])
        return "" if is_in_message else None

    def field(self, sent: Collection[str]) -> str:
        """Return the field that the refusal is about; an unlisted one only if it was sent."""
        by_word = {word: name for name, words in _FIELDS.items() for word in words}
        if self.param in sent:
            return by_word.get(self.param, self.param)
        if self.param and self.param != "messages":
            return by_word.get(self.param, "")
        return next(_named_in(self.message), "")

    @property
    def wants_other_name(self) -> bool:
        if _WANTED in self.message:
            return "max_tokens" in {self.param, *_named_in(self.message)}
        return self.param == "max_tokens" and "unsupported_parameter" in self.words

    @property
    def names_model(self) -> bool:
        return "model" in self.message or any("model" in word for word in self.words)


def _named_in(message: str) -> Iterator[str]:
    lowered = message.lower()
    for name, words in _FIELDS.items():
        patterns = (rf"(?<![a-z_]){word}(?![a-z_])" for word in words)
        if any(re.search(pattern, lowered) for pattern in patterns):
            yield name


def _last_place(detail: list[object]) -> str:
    """Return the first field that FastAPI calls wrong."""
    for entry in detail:
        place = None
        if isinstance(entry, dict):
            place = cast("dict[str, object]", entry).get("loc")
        if not isinstance(place, list) or not place:
            continue
        for part in cast("list[object]", place):
            if isinstance(part, str) and part != "body":
                return part
        return ""
    return ""
