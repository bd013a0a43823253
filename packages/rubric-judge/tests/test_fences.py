"""Fenced blocks of a text that a policy wrote."""

import time

import pytest

from rubric_judge.checks.python_tests import Block, fenced_blocks, response_code


@pytest.mark.parametrize(
    "line",
    [
        "~" * 3_000 + "`",
        "`" * 3 + " " * 20_000 + "`",
        "```" + "a" * 20_000 + "`",
        "~~~ a" * 5_000,
    ],
)
def test_no_line_takes_more_than_one_pass(line: str) -> None:
    started_s = time.process_time()

    blocks = fenced_blocks(f"{line}\n```json\n{{}}\n```")

    assert blocks[-1:] in ([], [Block("json", "{}")])
    assert (
        time.process_time() - started_s < 2
    )  # parted in every way: 16 s for the first line


@pytest.mark.parametrize(
    ("opening", "language"),
    [
        ("```", ""),
        ("~~~~", ""),
        ("``` json", "json"),
        ("~~~~Python x", "python"),
        ("   ```\tjson\t", "json"),
    ],
)
def test_a_fence_may_name_a_language(opening: str, language: str) -> None:
    closing = "~~~~" if "~" in opening else "```"

    assert fenced_blocks(f"{opening}\n1\n{closing}") == [Block(language, "1")]


@pytest.mark.parametrize("opening", ["``", "    ```", "```a`", "~~~`", "``` a `"])
def test_what_opens_no_block(opening: str) -> None:
    assert fenced_blocks(f"{opening}\n1") == []


@pytest.mark.parametrize(
    ("response", "code"),
    [
        ("```python\na = 1\n```", "a = 1"),
        ("Text.\n```py\na = 1\n```\nand\n~~~python\nb = 2\n~~~\n", "a = 1\nb = 2"),
        ("```bash\npip install x\n```\n```\na = 1\n```", "a = 1"),
        ("```\na\n```\n```\nb\n```", None),
        ("```python\na = 1", None),
        ("a = 1", None),
        ("````python\ns = '''\n```\n'''\n````", "s = '''\n```\n'''"),
    ],
)
def test_the_code_of_a_response_is_its_python_blocks(
    response: str, code: str | None
) -> None:
    assert response_code(response) == code
