"""The described objects among the blocks that pandoc reads."""

from collections.abc import Iterator, Sequence
from typing import Any

from rubric_synth.sources.objects.described import (
    Described,
    ObjectKind,
    is_code_name,
    kind_of,
    option_name,
    setting_name,
)
from rubric_synth.sources.objects.syntax import (
    MOST_TITLE_CHARS,
    Node,
    body_of,
    described_text,
    is_title_of_quote,
    one_line,
)
from rubric_synth.tables import patterns

_PATTERNS = patterns("objects")
_KINDS: dict[str, ObjectKind] = {
    "option": "option",
    "cmdoption": "option",
    "confval": "setting",
    "setting": "setting",
    "envvar": "variable",
}
"""Directives of Sphinx, by the kind of what they describe."""
_FEWEST_OF_A_LIST = 3
"""Fewest settings that a list or table without directives describes."""
_SIGNATURE = "sig-name"


class Finder:
    """Reader of one page, which remembers the headings and the program that it is under."""

    def __init__(
        self,
        title: str = "",
        *,
        has_plain_names: bool = False,
        is_of_one_command: bool = False,
    ) -> None:
        """Begin above the first heading.

        Args:
            title: Title of the page, where it is no heading of it.
            has_plain_names: Whether a word of English may name a setting: "Port".
            is_of_one_command: Whether the page is about one command, whatever usage it shows.
        """
        self._has_plain_names = has_plain_names
        self._is_of_one_command = is_of_one_command
        self._headings: list[tuple[int, str]] = [(0, title)] if title else []
        self._objects: set[int] = set()
        """Levels of the headings above that are names of objects."""
        self._program = ""
        self._module = ""
        self._marked: set[str] = set()
        """Names that an empty directive announces, as Django and Celery write them."""

    @property
    def headings(self) -> list[str]:
        """The headings above the current block."""
        return [text for _, text in self._headings]

    def find(self, blocks: Sequence[Node]) -> Iterator[Described]:
        """Yield the objects that blocks describe, in their order."""
        place = 0
        while place < len(blocks):
            block = blocks[place]
            place += 1
            content: Any = block.get("c")
            self._see_usage(block)
            match block["t"]:
                case "Header":
                    level, _, inlines = content
                    end = _end_of_section(blocks, place)
                    yield from self._of_heading(level, inlines, blocks[place:end])
                case "Div":
                    yield from self._of_directive(content)
                case "DefinitionList":
                    yield from self._of_list(content)
                case "BulletList":
                    yield from self._of_bullets(content)
                case "Table":
                    yield from self._of_table(content)
                case "BlockQuote":
                    yield from self.find(content)
                case "Para" if _is_quoted(blocks, place):
                    term = ([content, [blocks[place]["c"]]],)
                    yield from self._of_list(term, fewest=1)
                    place += 1
                case "Para" if is_title_of_quote(blocks, place - 1) and _is_command(
                    content
                ):
                    place += 1  # what it has are options of its own
                case _:
                    pass

    def _see_usage(self, block: Node) -> None:
        """Remember the command whose usage a block shows: "canal-lock [-h] [--wait SECONDS]"."""
        code = ""
        if block["t"] == "CodeBlock":
            code = block["c"][1]
        elif block["t"] == "LineBlock" and block["c"]:
            code = one_line(block["c"][0])
        match = _PATTERNS["usage"].match(code)
        if match is not None and not self._is_of_one_command:
            self._program = match["name"]

    def _of_heading(
        self,
        level: int,
        inlines: Sequence[Node],
        below: Sequence[Node],
    ) -> Iterator[Described]:
        """Yield the object whose name a heading is; remember any other heading."""
        title = _PATTERNS["anchor"].sub("", one_line(inlines)).strip()
        kept = [pair for pair in self._headings if pair[0] < level]
        self._objects = {other for other in self._objects if other < level}
        headings = [text for _, text in kept]
        self._headings = [*kept, (level, title)]
        name = option_name(title) or setting_name(title)
        is_marked = name in self._marked
        is_code = title.startswith("`") or is_code_name(name)
        if not name or not (is_marked or is_code):
            return
        kind = "setting" if is_marked else kind_of(name, headings)
        body = body_of(below, {})
        states_default = _PATTERNS["states_default"].search(described_text(body))
        is_sure = kind == "option" or is_marked or states_default is not None
        is_of_object = bool(
            self._objects
        )  # a key of a setting, such as many settings have
        if is_sure or not title.isupper():
            self._objects.add(level)
        # A word in code marks may head a section about a file or a function.
        if kind is None or not is_sure or is_of_object or body.is_old or not body.text:
            return
        yield self._described(kind, name, body.value_type, described_text(body))

    def _of_directive(self, content: Any) -> Iterator[Described]:
        (_, classes, pairs), blocks = content
        name = next(iter(classes), "")
        options = dict(pairs)
        signature = options.get("object", "")
        if name == "program":
            self._program = signature
        elif name in {"module", "currentmodule"}:
            self._module = signature
        elif "object" in options:
            yield from self._of_object(name, signature, options, blocks)
        else:
            yield from self.find(blocks)

    def _of_object(
        self,
        directive: str,
        signature: str,
        options: dict[str, str],
        blocks: Sequence[Node],
    ) -> Iterator[Described]:
        """Yield the object that a directive of Sphinx describes."""
        kind = _KINDS.get(directive)
        name = option_name(signature) if kind == "option" else setting_name(signature)
        if directive == "data" and not self._module and name.isupper():
            kind = kind_of(name, self.headings)
        if not blocks:
            self._marked.add(name)
            return
        if kind is None or not name:
            yield from self.find(blocks)
            return
        body = body_of(blocks, options)
        if body.text and not body.is_old:
            yield self._described(kind, name, body.value_type, described_text(body))

    def _of_list(
        self,
        items: Sequence[Any],
        *,
        fewest: int = _FEWEST_OF_A_LIST,
    ) -> Iterator[Described]:
        """Yield the objects of a list of definitions: of man pages, Sphinx's HTML, Markdown."""
        known: list[Described] = []
        for term, bodies in items:
            signature = _signature(term)
            title = signature or one_line(term)
            if _PATTERNS["ignored"].search(title):
                continue
            name = option_name(title) or setting_name(title)
            is_name = title.startswith(("`", "-")) or is_code_name(name)
            kind = None
            if signature:
                fewest = 1
                is_name = "(" not in one_line(term)  # no function
            if name and (is_name or self._has_plain_names):
                kind = self._kind_of(name)
            blocks = [block for body in bodies for block in body]
            if kind is None:
                if signature or not _is_command(term):
                    yield from self.find(blocks)
                continue
            body = body_of(blocks, {})
            if body.text and not body.is_old:
                text = described_text(body)
                known.append(self._described(kind, name, body.value_type, text))
        yield from _enough(known, fewest)

    def _of_bullets(self, items: Sequence[Sequence[Node]]) -> Iterator[Described]:
        """Yield the objects of a list such as "* `--host` - Bind to this host."."""
        known: list[Described] = []
        for blocks in items:
            if not blocks or blocks[0]["t"] not in {"Para", "Plain"}:
                continue
            match = _PATTERNS["bullet"].match(one_line(blocks[0]["c"]))
            if match is None:
                continue
            name = option_name(match["title"]) or setting_name(match["title"])
            is_name = name.startswith("-") or is_code_name(name)
            kind = self._kind_of(name) if is_name else None
            if kind is not None:
                text = _PATTERNS["default_here"].sub(r"Default: `\1`", match["text"])
                known.append(self._described(kind, name, "", text))
        yield from _enough(known)

    def _of_table(self, content: Any) -> Iterator[Described]:
        """Yield the objects of a table with a column of names and one of descriptions."""
        _, _, _, head, bodies, _ = content
        rows = [_cells(row) for row in head[1]]
        rows += [_cells(row) for body in bodies for row in (*body[2], *body[3])]
        if not rows:
            return
        columns = _columns(rows[0])
        if not columns.keys() >= {"name", "text"}:
            return
        known: list[Described] = []
        for row in rows[1:]:
            if len(row) != len(rows[0]):
                continue
            title = row[columns["name"]]
            name = option_name(title) or setting_name(title)
            kind = self._kind_of(name, rows[0][columns["name"]]) if name else None
            if kind is None:
                continue
            text = row[columns["text"]]
            if text and text[-1] not in ".?!":
                text += "."
            default = row[columns["default"]] if "default" in columns else ""
            value = default.rstrip(".")
            if value and " " not in value:
                text += f" Default: `{value.replace('`', '')}`."
            elif value:
                text += f" Default: {value}."
            value_type = row[columns["type"]] if "type" in columns else ""
            known.append(self._described(kind, name, value_type.replace("`", ""), text))
        yield from _enough(known)

    def _kind_of(self, name: str, column: str = "") -> ObjectKind | None:
        """Return the kind of an object of a list, which below a setting is one of its values."""
        kind = kind_of(name, [*self.headings, column])
        if self._objects and kind != "option":
            return None
        return kind

    def _described(
        self,
        kind: ObjectKind,
        name: str,
        value_type: str,
        text: str,
    ) -> Described:
        return Described(
            kind=kind,
            name=name,
            program=self._program if kind == "option" else "",
            value_type=value_type,
            text=text,
            headings=tuple(self.headings),
        )


def _is_quoted(blocks: Sequence[Node], place: int) -> bool:
    """Tell whether a paragraph is the name of an object, and a block quote follows it."""
    if place >= len(blocks) or blocks[place]["t"] != "BlockQuote":
        return False
    inlines: list[Node] = blocks[place - 1]["c"]
    if len(inlines) == 1 and inlines[0]["t"] == "Code":
        return True
    title = one_line(inlines)
    name = option_name(title) or setting_name(title)
    return len(title) <= MOST_TITLE_CHARS and (name[:1] == "-" or is_code_name(name))


def _is_command(title: Sequence[Node]) -> bool:
    """Tell whether a title is a command or setting with arguments, and heads no group of objects.

    Args:
        title: "server hostname [option]...", which has options of its own; "Common options".
    """
    words = one_line(title).replace("`", "")
    return (
        words[:1].islower() and _PATTERNS["of_whole_program"].fullmatch(words) is None
    )


def _enough(
    known: list[Described],
    fewest: int = _FEWEST_OF_A_LIST,
) -> list[Described]:
    """Return objects of a list, options alone where there are few others."""
    others = sum(item.kind != "option" for item in known)
    if others >= fewest:
        return known
    return [item for item in known if item.kind == "option"]


def _end_of_section(blocks: Sequence[Node], start: int) -> int:
    """Return the place of the next heading."""
    for place in range(start, len(blocks)):
        if blocks[place]["t"] == "Header":
            return place
    return len(blocks)


def _signature(term: Sequence[Node]) -> str:
    """Return the names that Sphinx marks in the title of an object in HTML; "" for none."""
    names: list[str] = []
    for node in term:
        if node["t"] != "Span":
            continue
        classes: list[str] = node["c"][0][1]
        if _SIGNATURE in classes:
            names.append(one_line(node["c"][1]).replace("`", ""))
    return ", ".join(names)


def _cells(row: Any) -> list[str]:
    return [" ".join(_cell_text(cell[4]).split()) for cell in row[1]]


def _cell_text(blocks: Sequence[Node]) -> str:
    texts = [one_line(block["c"]) for block in blocks if block["t"] in _TEXTS]
    if len(texts) < len(blocks):
        return ""
    return " ".join(texts)


_TEXTS = frozenset({"Para", "Plain"})


def _columns(titles: Sequence[str]) -> dict[str, int]:
    """Return the places of the columns of a table, by what they hold."""
    columns: dict[str, int] = {}
    for place, title in enumerate(titles):
        for name in ("name", "text", "default", "type"):
            if _PATTERNS[f"column_of_{name}"].fullmatch(title):
                columns.setdefault(name, place)
    return columns
