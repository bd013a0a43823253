"""Point every function on the page of equations at the line where it begins: `docs/equations.md`.

The site's build (`hooks` in mkdocs.yml) leaves the names alone: it holds no source to link to.
"""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "equations.md"
LINK = re.compile(r"\[`((?:rubric_\w+)(?:\.\w+)+)`\]\((\.\./packages/[^)]*)\)")


def source_line(dotted: str) -> tuple[str, int]:
    """Return the file, from the root, and the line where a function or method begins.

    Raises:
        LookupError: no such function in the packages.
    """
    parts = dotted.split(".")
    for end in range(len(parts) - 1, 0, -1):
        for path in ROOT.glob(f"packages/*/src/{'/'.join(parts[:end])}.py"):
            if (
                line := _line(ast.parse(path.read_text("utf-8")), parts[end:])
            ) is not None:
                return path.relative_to(ROOT).as_posix(), line
    message = f"{dotted}: no such function; correct its row in {PAGE.relative_to(ROOT)}"
    raise LookupError(message)


def _line(tree: ast.Module, names: list[str]) -> int | None:
    node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef = tree
    for name in names:
        inside = {
            child.name: child
            for child in node.body
            if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        }
        if name not in inside:
            return None
        node = inside[name]
    return None if isinstance(node, ast.Module) else node.lineno


def linked(page: str) -> str:
    """Return the page with every link at its function's present line."""

    def link(match: re.Match[str]) -> str:
        path, line = source_line(match[1])
        return f"[`{match[1]}`](../{path}#L{line})"

    return LINK.sub(link, page)


def on_page_markdown(markdown: str, **_: object) -> str:
    """Take the links to source files out of a page of the site; called by mkdocs."""
    return LINK.sub(r"`\1`", markdown)


if __name__ == "__main__":
    PAGE.write_text(linked(PAGE.read_text("utf-8")), "utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)}")
