"""A prompt is the same tomorrow, and answers to another one are not taken for answers to it."""

import datetime as dt
import json
from pathlib import Path

import pytest

from rubric_core.data.chat_prompt import PLAIN, ChatPrompt, prompt_identity, reads_clock

DATED = "{{ strftime_now('%d %b %Y') }}: {{ messages[0].content }}"
UNDATED = "{{ messages[0].content }}"
CHRISTMAS = ChatPrompt(date=dt.date(2025, 12, 24))


@pytest.mark.parametrize(
    "place", ["chat_template.jinja", "additional_chat_templates/tools.jinja"]
)
def test_a_template_in_a_file_may_write_the_date(tmp_path: Path, place: str) -> None:
    file = tmp_path / place
    file.parent.mkdir(exist_ok=True)
    file.write_text(DATED)

    assert reads_clock(tmp_path)
    file.write_text(UNDATED)
    assert not reads_clock(tmp_path)


@pytest.mark.parametrize("kept", [DATED, [{"name": "default", "template": DATED}]])
def test_a_template_among_the_settings_may_write_the_date(
    tmp_path: Path, kept: object
) -> None:
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": kept}))

    assert reads_clock(tmp_path)


def test_the_date_counts_where_a_template_writes_it(tmp_path: Path) -> None:
    (tmp_path / "chat_template.jinja").write_text(DATED)

    assert prompt_identity(tmp_path, CHRISTMAS) == {"prompt_date": "2025-12-24"}
    assert prompt_identity(tmp_path, PLAIN) == prompt_identity(tmp_path, ChatPrompt())


def test_answers_of_a_template_without_a_date_keep_their_identity(
    tmp_path: Path,
) -> None:
    (tmp_path / "chat_template.jinja").write_text(UNDATED)

    assert prompt_identity(tmp_path, CHRISTMAS) == {}


def test_names_that_a_template_is_given_count(tmp_path: Path) -> None:
    prompt = ChatPrompt(arguments={"enable_thinking": False})

    assert prompt_identity(tmp_path, prompt) == {
        "chat_template_kwargs": {"enable_thinking": False}
    }
