"""Texts of the blocks that pandoc reads, with their code in code marks."""

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from rubric_synth.sources.cleaning.markup import inline_to_prose
from rubric_synth.tables import patterns, word_set

Node = dict[str, Any]
"""A block or an inline of pandoc: its type at "t", its content at "c"."""
_PATTERNS = patterns("objects")
_KEPT_NOTES = word_set("notes_of_objects")
_OLD = frozenset({"deprecated", "versionremoved", "deprecated-removed"})
_CODE_ROLES = word_set("roles_of_objects")
_POINTERS = frozenset({"ref", "doc", "numref", "std:ref", "std:doc"})
_COMPLETING = frozenset({"CodeBlock", "BulletList", "OrderedList", "Table"})
MOST_TITLE_CHARS = 80
"""Characters of the longest title of an object."""
_MOST_WORDS = 250
"""Words of a description after which no paragraph is added."""


def inline_text(inlines: Sequence[Node]) -> str:
    """Return the text of inlines; a line end of the source stays one."""
    pieces: list[str] = []
    for node in inlines:
        piece = _text_of(node)
        is_option = piece.startswith("`-") and node["t"] == "Strong"
        if is_option and pieces and pieces[-1][-1:].isalnum():
            pieces.append(" ")  # pandoc loses a space before a change of font
        pieces.append(piece)
    return "".join(pieces)


def _text_of(node: Node) -> str:
    content: Any = node.get("c")
    kind: str = node["t"]
    text = _GAPS.get(kind, "")
    if kind == "Str":
        text = content
    elif kind == "Code":
        text = _code(*content)
    elif kind == "Quoted":
        mark = "'" if content[0]["t"] == "SingleQuote" else '"'
        text = f"{mark}{inline_text(content[1])}{mark}"
    elif kind in {"Span", "Link"}:
        classes: list[str] = content[0][1]
        text = "" if "headerlink" in classes else inline_text(content[1])
    elif kind == "Math":
        text = f"${content[1]}$"
    elif kind in _FONTS:
        text = inline_text(content)
        if kind == "Strong" and _PATTERNS["bare_option"].fullmatch(text):
            text = f"`{text}`"
    return text


_GAPS = {"Space": " ", "SoftBreak": "\n", "LineBreak": "\n"}
_FONTS = frozenset(
    {"Emph", "SmallCaps", "Strong", "Subscript", "Superscript", "Underline"}
)


def _code(attributes: Sequence[Any], text: str) -> str:
    """Return code in marks, and a role of Sphinx as its words."""
    _, classes, pairs = attributes
    text = " ".join(text.split())
    if "interpreted-text" not in classes:
        return f"`{text.replace('`', '')}`" if text else ""
    role = dict(pairs).get("role", "")
    if role in _POINTERS and "<" not in text:
        return f"[{text}]"  # a label: its sentence says nothing without it
    if role in {"pep", "rfc"} and text.isdigit():
        return f"{role.upper()} {text}"
    prose = inline_to_prose(f":{role}:`{text}`")
    is_code = role.rpartition(":")[2] in _CODE_ROLES and " " not in prose
    return f"`{prose}`" if is_code and prose else prose


def one_line(inlines: Sequence[Node]) -> str:
    """Return the text of inlines in one line."""
    return " ".join(inline_text(inlines).split())


class Body(NamedTuple):
    """A description: its text, and what stands in fields of its own."""

    text: str
    value_type: str
    default: str
    is_old: bool
    """Whether it is deprecated."""


def body_of(blocks: Sequence[Node], options: dict[str, str]) -> Body:
    """Read the description below the title of an object.

    Args:
        blocks: Its blocks.
        options: Fields that its directive has, such as "default".
    """
    fields = {
        name: inline_to_prose(_PATTERNS["role"].sub(r"\1", text))
        for name, text in options.items()
    }
    paragraphs: list[str] = []
    is_old = False
    for paragraph in _paragraphs(blocks, fields):
        if paragraph in _OLD:
            is_old = True
        elif sum(len(text.split()) for text in paragraphs) < _MOST_WORDS:
            paragraphs.append(paragraph)
    text = " ".join(filter(None, paragraphs))
    match = _PATTERNS["leading_type"].match(text)
    if match is not None:
        # "(boolean, default False) Whether to measure …".
        text = text[match.end() :]
        fields.setdefault("type", match["type"])
        if match["default"]:
            fields.setdefault("default", match["default"])
    is_old = is_old or _PATTERNS["old"].search(text) is not None
    return Body(
        text=text,
        value_type=fields.get("type", "").replace("`", ""),
        default=fields.get("default", ""),
        is_old=is_old,
    )


def _paragraphs(blocks: Sequence[Node], fields: dict[str, str]) -> Iterator[str]:
    """Yield the paragraphs of a description; its fields go into `fields`."""
    waiting = ""
    others = set(_places_of_others(blocks, fields))
    for place, block in enumerate(blocks):
        if place in others or block["t"] in _COMPLETING:
            # What a list or an example completes says nothing without it.
            waiting = _PATTERNS["announced"].sub("", waiting)
            continue
        yield waiting
        waiting = ""
        content: Any = block.get("c")
        match block["t"]:
            case "Para" | "Plain":
                waiting = _without_fields(inline_text(content), fields)
            case "LineBlock":
                lines = "\n".join(map(inline_text, content))
                waiting = _without_fields(lines, fields)
            case "DefinitionList":
                _read_fields(content, fields)
            case "BlockQuote":
                yield from _paragraphs(content, fields)
            case "Div":
                name = next(iter(content[0][1]), "")
                if name in _OLD:
                    yield name
                elif name in _KEPT_NOTES:
                    yield from _paragraphs(content[1], fields)
            case _:
                pass
    yield _PATTERNS["announced"].sub("", waiting)


def _places_of_others(blocks: Sequence[Node], fields: dict[str, str]) -> Iterator[int]:
    """Yield the places of what is no text of a description; a list of fields is read.

    Other objects are none, neither title nor text: what an option of a setting says, such as its
    default, is not true of the setting.

    Args:
        blocks: Blocks of the description.
        fields: The fields known so far, which a list that comes first adds to.
    """
    if blocks and _is_list_of_fields(blocks[0], fields):
        yield 0
    for place in range(1, len(blocks)):
        if is_title_of_quote(blocks, place):
            yield from (place, place + 1)


def is_title_of_quote(blocks: Sequence[Node], place: int) -> bool:
    """Tell whether a block is a short title, no sentence, and a block quote follows it.

    Args:
        blocks: Blocks of a description or a page.
        place: Place of the block.
    """
    if place + 1 >= len(blocks) or blocks[place + 1]["t"] != "BlockQuote":
        return False
    if blocks[place]["t"] not in {"Para", "Plain"}:
        return False
    title = one_line(blocks[place]["c"]).removesuffix("...")
    return len(title) <= MOST_TITLE_CHARS and title[-1:] not in ".:;!?,"


def _is_list_of_fields(block: Node, fields: dict[str, str]) -> bool:
    """Tell whether a block is a list such as "- Type: `int`", "- Default: `3`"; read its fields."""
    if block["t"] != "BulletList":
        return False
    lines: list[str] = []
    for item in block["c"]:
        if len(item) != 1 or item[0]["t"] not in {"Para", "Plain"}:
            return False
        lines.append(one_line(item[0]["c"]))
    matches = [_PATTERNS["field"].match(line) for line in lines]
    if not any(matches) or not all(map(_PATTERNS["any_field"].match, lines)):
        return False
    for match in filter(None, matches):
        fields.setdefault(_field(match["name"]), match["text"].strip())
    return True


def _without_fields(text: str, fields: dict[str, str]) -> str:
    """Return a paragraph without its lines that are fields: "Default: `False`"."""
    if _PATTERNS["admonition"].match(text):
        return ""
    if _PATTERNS["pairs"].fullmatch(text):
        for match in _PATTERNS["pair"].finditer(text):
            if match["name"] in {"type", "default"} and not match["aside"]:
                fields.setdefault(match["name"], f"`{match['value']}`")
        return ""
    kept: list[str] = []
    for line in text.splitlines():
        match = _PATTERNS["field"].match(line)
        if match is None:
            if _PATTERNS["other_field"].fullmatch(line.strip()) is None:
                kept.append(line)
        else:
            fields.setdefault(_field(match["name"]), match["text"].strip())
    joined = " ".join(" ".join(kept).split())
    if joined and joined[-1] not in ".:?!":
        joined += "."
    return joined


def _read_fields(items: Sequence[Any], fields: dict[str, str]) -> None:
    for term, bodies in items:
        match = _PATTERNS["field_name"].fullmatch(one_line(term))
        if match is None or not bodies or not bodies[0]:
            continue
        first = bodies[0][0]
        if first["t"] in {"Para", "Plain"}:
            fields.setdefault(_field(match[0]), one_line(first["c"]))


def _field(name: str) -> str:
    return "type" if name.lower().startswith(("type", "value type")) else "default"


def described_text(body: Body) -> str:
    """Return the text of a description with its default as a last sentence."""
    if not body.default:
        return body.text
    value = body.default.rstrip(".").strip()
    if re.fullmatch(r"[^\s`]+", value):
        value = f"`{value}`"
    return f"{body.text} Default: {value}.".strip()
