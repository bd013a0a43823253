"""docs/equations.md maps every equation to a function and a test, as the code states them."""

import ast
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

# The labelled equations of the paper's method.
LABELS = {
    "advantage",
    "clipped_loss",
    "criterion_delta",
    "effective_criteria",
    "judge_scores",
    "kl_approx",
    "norm_reward",
    "objective",
    "rubric_projection",
    "total_loss",
}
# What the paper describes without a label.
TOPICS = {"resolution", "seq_mask_tis", "tis", "truncation_penalty"}
SOURCE_LINE = re.compile(r"^\s*(Source: .*)$", re.MULTILINE)
PAPER_LABEL = re.compile(r"\b(?:Eq\.|topic) (\w+)")
ARXIV_ID = re.compile(r"\barXiv (\d{4}\.\d{5})")
# | number | `label` | formula | [`function`](file and line) | whose on a cluster | `test` |
ROW = re.compile(
    r"^\| (?:\d+ \| )?`([\w.]+)` \| (.+?) \| \[`([\w.]+)`\]\([^)]+\) \| [^|]+ "
    r"\| `([\w./-]+)::(\w+)` \|$"
)


def documented(node: ast.AST, prefix: str) -> Iterator[tuple[str, str]]:
    """Yield the dotted name and the docstring of every class, function and method below a node."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            name = f"{prefix}.{child.name}"
            yield name, ast.get_docstring(child) or ""
            yield from documented(child, name)


def cited(line: str) -> Iterator[str]:
    """Yield the paper's labels and the arXiv numbers of one source line."""
    for source in line.removeprefix("Source: ").split("; "):
        if source.startswith("paper,"):
            yield from PAPER_LABEL.findall(source)
        else:
            yield from ARXIV_ID.findall(source)


@pytest.fixture(scope="module")
def in_code(modules: dict[str, ast.Module]) -> set[tuple[str, str]]:
    """The pairs (label or arXiv number, function) that the docstrings' source lines state."""
    found: set[tuple[str, str]] = set()
    for module, tree in modules.items():
        for name, docstring in documented(tree, module):
            for line in SOURCE_LINE.findall(docstring):
                found.update((label, name) for label in cited(line))
    return found


@pytest.fixture(scope="module")
def tool(root: Path) -> ModuleType:
    path = root / "tools/equation_links.py"
    spec = importlib.util.spec_from_file_location("equation_links", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def rows(root: Path) -> list[tuple[str, ...]]:
    lines = (root / "docs/equations.md").read_text("utf-8").splitlines()
    return [found.groups() for line in lines if (found := ROW.match(line))]


def test_every_table_row_can_be_read(root: Path, rows: list[tuple[str, ...]]) -> None:
    lines = (root / "docs/equations.md").read_text("utf-8").splitlines()

    assert len(rows) == sum(bool(re.match(r"\| (\d+ \| )?`", line)) for line in lines)


def test_every_function_is_linked_to_its_line(root: Path, tool: ModuleType) -> None:
    page = (root / "docs/equations.md").read_text("utf-8")

    assert tool.linked(page) == page, "run `uv run python tools/equation_links.py`"
    # The site holds no source to link to.
    assert "](../packages" not in tool.on_page_markdown(page)


def test_a_function_that_is_gone_is_named(tool: ModuleType) -> None:
    row = "[`rubric_core.reward.advantage.gone`](../packages/x)"

    gone = r"rubric_core\.reward\.advantage\.gone: no such function"
    with pytest.raises(LookupError, match=gone):
        tool.linked(row)


def test_the_page_lists_what_the_source_lines_state(
    rows: list[tuple[str, ...]], in_code: set[tuple[str, str]]
) -> None:
    in_page = {(label, function) for label, _, function, _, _ in rows}

    assert sorted(in_page) == sorted(in_code)


def test_every_equation_of_the_method_has_a_function(
    in_code: set[tuple[str, str]],
) -> None:
    labels = {label for label, _ in in_code if not label[0].isdigit()}

    assert sorted(labels) == sorted(LABELS | TOPICS)


def test_every_named_test_exists(root: Path, rows: list[tuple[str, ...]]) -> None:
    missing = [
        f"{path}::{test}"
        for _, _, _, path, test in rows
        if not (root / path).is_file()
        or f"def {test}(" not in (root / path).read_text("utf-8")
    ]

    assert missing == []
