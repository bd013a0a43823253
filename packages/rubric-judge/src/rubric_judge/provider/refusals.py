"""What a refusal is about: read from its `code`, `type` and `param`, and from known words.

Servers say it in different places: OpenAI's clients know `error.param` and `error.code`, SGLang
puts both beside the message, FastAPI lists the places that are wrong, and some have the message
alone. Of what is found only words of our own are ever shown.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal, cast

from rubric_core.files import toml_beside

_KNOWN: Final = toml_beside(__file__, "refusals.toml")
_FIELDS: Final[dict[str, list[str]]] = _KNOWN["fields"]
_WANTED: Final = "max_completion_tokens"
_NO_CREDIT: Final = 402
_TOO_LARGE: Final = 413
_OF_REQUEST: Final = frozenset({400, 413, 422, 500})
"""Statuses of a refusal that may be about the length; 500 is an older llama.cpp's."""
_OF_FIELDS: Final = frozenset({400, 422})

About = Literal["", "credit", "context", "policy", "rate", "field"]


@dataclass(frozen=True, slots=True)
class Refusal:
    """What a server refuses a request for, as far as it says so in words that are known."""

    about: About = ""
    word: str = ""
    """The known word of its code; nothing where the message said it."""
    field: str = ""
    """The field of the request, where it is about one."""
    instead: str = ""
    """The field that is wanted in its place."""
    names_model: bool | None = None
    """Whether it is about the model; None where nothing can be read."""


UNREAD: Final = Refusal()


def read_refusal(
    body: Mapping[str, object], *, status: int, sent: Collection[str] = ()
) -> Refusal:
    """Read the body of an answer that is no success.

    Args:
        body: as decoded; empty where it is no JSON object.
        status: of HTTP, or what stands for it in the body of a success.
        sent: the fields of the request; one that is not known otherwise is known so.

    Returns:
        What it is about; `Refusal.about` is empty where no known word says so.
    """
    said = _Said.of(body)
    names_model = said.names_model if body else False
    credit = said.about("credit")
    if status == _NO_CREDIT or credit is not None:
        return Refusal("credit", credit or "", names_model=names_model)
    if status == 400 and said.about("policy") is not None:  # noqa: PLR2004
        return Refusal("policy", names_model=names_model)
    # "Request too large" of a limit by the minute is a 413 of Groq's, and no answer would come of
    # waiting either.
    if status == _TOO_LARGE or (
        status in _OF_REQUEST and said.about("context") is not None
    ):
        return Refusal("context", said.about("context") or "", names_model=names_model)
    if status in _OF_FIELDS and (field := said.field(sent)):
        is_renamed = field in {"max_tokens", _WANTED} and said.wants_other_name
        instead = _WANTED if is_renamed else ""
        return Refusal(
            "field", "", "max_tokens" if instead else field, instead, names_model
        )
    return Refusal(names_model=names_model)


def status_in_success(error: object) -> int | None:
    """Return the HTTP status that stands for an error in the body of a success.

    Args:
        error: what stands under `error`.

    Returns:
        The status; None where it says none that is known.
    """
    said: Mapping[str, object] = {"message": str(error)}
    if isinstance(error, dict):
        said = cast("dict[str, object]", error)
    code = said.get("code", said.get("status"))
    is_number = isinstance(code, int | float) and not isinstance(code, bool)
    text = str(int(cast("float", code))) if is_number else str(code)
    if text.isdecimal() and 400 <= int(text) < 600:  # noqa: PLR2004
        return int(text)
    read = _Said.of({"error": said})
    known = {"credit": _NO_CREDIT, "rate": 429, "context": 400, "policy": 400}
    return next(
        (status for kind, status in known.items() if read.about(kind) is not None), None
    )


def unsendable_field(message: str) -> str:
    """Return the field that a library names where it will not send a request; or nothing."""
    return next(_named_in(message), "")


@dataclass(frozen=True, slots=True)
class _Said:
    words: tuple[str, ...]
    param: str
    message: str

    @classmethod
    def of(cls, body: Mapping[str, object]) -> "_Said":
        error = body.get("error")
        fields = (
            cast("Mapping[str, object]", error) if isinstance(error, dict) else body
        )
        message = error if isinstance(error, str) else fields.get("message")
        param = fields.get("param")
        detail = body.get("detail")
        if isinstance(detail, str) and not isinstance(message, str):
            message = detail
        if isinstance(detail, list) and not isinstance(param, str):
            param = _last_place(cast("list[object]", detail))
        named = (
            fields.get(name)
            for name in ("code", "type", "param", "status", "error_type")
        )
        words = tuple(
            str(word).lower() for word in named if isinstance(word, str | int | float)
        )
        return cls(
            words=tuple(word.removesuffix(".0") for word in words),
            param=re.split(r"[.\[]", param)[0] if isinstance(param, str) else "",
            message=message.lower() if isinstance(message, str) else "",
        )

    def about(self, kind: str) -> str | None:
        """Return the known word of a kind; "" where the message has it, None where nothing has."""
        known: Mapping[str, list[str]] = _KNOWN[kind]
        if word := next((word for word in self.words if word in known["words"]), None):
            return word
        return (
            "" if any(phrase in self.message for phrase in known["phrases"]) else None
        )

    def field(self, sent: Collection[str]) -> str:
        """Return the field that it is about; one that is in no list only where it was sent."""
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
    for name, words in _FIELDS.items():
        if any(
            re.search(rf"(?<![a-z_]){word}(?![a-z_])", message.lower())
            for word in words
        ):
            yield name


def _last_place(detail: list[object]) -> str:
    """Return the field that FastAPI finds wrong first."""
    for one in detail:
        place = (
            cast("dict[str, object]", one).get("loc") if isinstance(one, dict) else None
        )
        if isinstance(place, list) and place:
            names = [
                part for part in cast("list[object]", place) if isinstance(part, str)
            ]
            return next((name for name in names if name != "body"), "")
    return ""
