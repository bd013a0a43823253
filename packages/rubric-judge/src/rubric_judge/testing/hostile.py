"""Texts that break the readers of replies: a set of our own, and any folder of JSON test files.

None of them is a valid reply, so none ever awards anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from rubric_core.files import read_file
from rubric_judge.testing.faults import Fault

Place = Literal["reply", "score", "total", "body"]
"""Where a text stands: as the whole message, as the first score, as the total, or as the body."""


@dataclass(frozen=True, slots=True)
class HostileText:
    """A text and the place in an answer where it stands.

    A message may hold `@reply@`, where a valid reply goes; `@fields@`, the same without its opening
    brace; or `@quoted@`, the same as a JSON string. A score may hold `@id@`: the criterion's id
    with every character escaped.
    """

    name: str
    """For records and tables."""
    text: str
    """Bytes that are no UTF-8 are held as `surrogateescape` holds them, and sent as they were."""
    place: Place = "reply"

    @property
    def fault(self) -> Fault:
        """The fault that sends it."""
        return Fault.HOSTILE_BODY if self.place == "body" else Fault.HOSTILE_REPLY


def read_json_test_suite(folder: Path) -> tuple[HostileText, ...]:
    """Read the files that a JSON parser must refuse (`n_*`) or may refuse (`i_*`).

    Args:
        folder: `test_parsing` of JSONTestSuite, or a folder with files named like its own.

    Returns:
        Every file three times: as the message, as a score and as the body.

    Raises:
        FileNotFoundError: the folder holds no such file.
        OSError: a file cannot be read.
    """
    files = sorted(path for path in folder.iterdir() if path.name.startswith(("n_", "i_")))
    if not files:
        raise FileNotFoundError(
            f"{folder}: no file named n_*.json or i_*.json; give the folder `test_parsing`"
        )
    texts = {path.stem: read_file(path).decode(errors="surrogateescape") for path in files}
    places: tuple[Place, ...] = ("reply", "score", "body")
    return tuple(text for place in places for text in _at(place, texts))


def _at(place: Place, texts: Mapping[str, str]) -> tuple[HostileText, ...]:
    return tuple(HostileText(f"{name} as {place}", text, place) for name, text in texts.items())


_REPLIES = {
    "byte order mark": "\ufeff@reply@",
    "text before": "Here is my verdict: @reply@",
    "text after": "@reply@ I hope this helps!",
    "fence without a language": "```\n@reply@\n```",
    "twice": "@reply@\n@reply@",
    "trailing comma": "@reply@,",
    "line comment": "// full marks\n@reply@",
    "block comment": "/* full marks */ @reply@",
    "no-break space": "\u00a0@reply@",
    "null character": "@reply@\x00",
    "in a list": "[@reply@]",
    "in an object": '{"reply": @reply@}',
    "in a string": "@quoted@",
    "scores twice": '{"scores": {}, @fields@',
    "total twice": '{"total": 0, @fields@',
    "unasked field": '{"override": true, @fields@',
    "prototype": '{"__proto__": {"total": 100}, @fields@',
    "no fields": "{}",
    "only scores": '{"scores": {"a": 1}}',
    "scores are null": '{"reasoning": "", "scores": null, "total": 0, "max_total": 0}',
    "scores are a list": '{"reasoning": "", "scores": [1, 1], "total": 2, "max_total": 2}',
    "scores are a number": '{"reasoning": "", "scores": 1, "total": 1, "max_total": 1}',
    "reasoning is a list": '{"reasoning": [], "scores": {}, "total": 0, "max_total": 0}',
    "single quotes": "{'reasoning': '', 'scores': {}, 'total': 0, 'max_total': 0}",
    "names without quotes": '{reasoning: "", scores: {}, total: 0, max_total: 0}',
    "YAML": "reasoning: good\nscores: {a: 1}\ntotal: 1\n",
    "XML": "<scores><a>1</a></scores>",
    "a score out of ten": "10/10",
    "number": "100",
    "true": "true",
    "null": "null",
    "list": "[]",
    "string": '"full marks"',
    "lone surrogate": '"\\ud800"',
    "half an escape": '"\\u00',
    "bad escape": '"\\x41"',
    "raw line break in a string": '"a\nb"',
    "white space": " \n\t ",
    "line separator": "\u2028",
    "bytes that are no UTF-8": "\udcff\udcfe@reply@",
    "overlong slash": "\udcc0\udcaf",
    "many lists": "[" * 100_000,
    "many objects": '{"scores":' * 50_000,
    "many balanced lists": "[" * 20_000 + "]" * 20_000,
}

_NUMBERS = {
    "NaN": "NaN",
    "Infinity": "Infinity",
    "minus Infinity": "-Infinity",
    "lower-case nan": "nan",
    "overflow": "1e400",
    "negative overflow": "-1e400",
    "five thousand digits": "9" * 5000,
    "largest double": "1.7976931348623157e308",
    "slightly negative": "-1e-9",
    "leading zero": "01",
    "leading plus": "+1",
    "leading point": ".5",
    "trailing point": "1.",
    "no exponent": "1e",
    "hexadecimal": "0x1",
    "binary": "0b1",
    "underscore": "1_0",
    "thousands separator": "1,000",
    "decimal comma": "0,5",
    "fraction": "1/2",
    "per cent": "50%",
    "full-width digit": "\uff11",
    "Arabic digit": "\u0661",
    "half": "\u00bd",
    "true minus sign": "\u22121",
    "two numbers": "1 1",
    "comment": "1 /* of 1 */",
    "nothing": "",
    "undefined": "undefined",
    "None": "None",
    "null": "null",
    "true": "true",
    "false": "false",
    "string": '"1"',
    "empty string": '""',
    "list": "[1]",
    "object": '{"value": 1}',
    "closing brace": "1}",
}

_SCORES = {
    "same id, escaped": '0, "@id@": 0',
    "another id": '0, "bonus": 1',
    "empty id": '0, "": 0',
}

_BODIES = {
    "nothing": "",
    "white space": "  \n",
    "null": "null",
    "list": "[]",
    "object": "{}",
    "string": '"ok"',
    "number": "1",
    "sentence": "upstream connect error",
    "error in a 200": '{"error": {"message": "overloaded", "type": "server_error"}}',
    "no choices": '{"choices": []}',
    "choices are null": '{"choices": null}',
    "choices are a string": '{"choices": "none"}',
    "a choice is null": '{"choices": [null]}',
    "a choice is empty": '{"choices": [{}]}',
    "message is null": '{"choices": [{"index": 0, "message": null}]}',
    "message is a string": '{"choices": [{"index": 0, "message": "full marks"}]}',
    "content is null": '{"choices": [{"index": 0, "message": {"content": null}}]}',
    "content is a number": '{"choices": [{"index": 0, "message": {"content": 5}}]}',
    "content is an object": '{"choices": [{"index": 0, "message": {"content": {"a": 1}}}]}',
    "event stream": 'data: {"choices": []}\n\ndata: [DONE]\n\n',
    "cut off": '{"choices": [{"index": 0, "mess',
    "bytes that are no UTF-8": "\udcff\udcfe{}",
    "byte order mark": '\ufeff{"choices": []}',
    "NaN": '{"choices": NaN}',
    "many lists": "[" * 100_000,
}

HOSTILE_TEXTS: Final[tuple[HostileText, ...]] = (
    *_at("reply", _REPLIES),
    *_at("score", _NUMBERS | _SCORES),
    *_at("total", _NUMBERS),
    *_at("body", _BODIES),
)
"""Our own set, in every place."""
