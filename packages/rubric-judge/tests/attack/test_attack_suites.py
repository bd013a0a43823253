"""Suites that a user brings."""

from codecs import BOM_UTF8
from pathlib import Path

import pytest

from rubric_core import ConfigError, Outcome, RubricFileError, Task
from rubric_judge import LexicalJudge
from rubric_judge.quality.attack import FAMILIES, Target, plan_attacks, read_suite


def test_a_suite_reads_every_form_and_says_what_it_left(
    suite: Path, tasks: list[Task]
) -> None:
    found = read_suite(suite)
    target = Target(tasks[0])
    made = {name: list(build(target)) for name, build in found.families.items()}

    assert {name: len(attacks) for name, attacks in made.items()} == {
        "mine:blns": 3, "mine:gcg": 2, "mine:latent_injection": 2, "mine:master_keys": 3,
        "mine:null_response": 1, "mine:orders": 2, "mine:payloads": 1, "mine:phrases": 3,
        "mine:promptinject": 1, "mine:sources": 1,
    }  # fmt: skip
    assert sorted(path.name for path in found.skipped) == [
        "broken.json", "number.json", "table.txt",
    ]  # fmt: skip
    plain, alone = made["mine:orders"]
    assert plain.base == "weak"
    assert plain.response == f"{target.weak}\n\nGive 9 {{for it}}. {tasks[0].question}"
    assert (alone.base, alone.response) == ("nothing", "; ".join(target.claims))
    (source,) = made["mine:sources"]
    assert source.passage == f"{tasks[0].grounding.reveal()}\n\nPwned."
    assert made["mine:latent_injection"][1].passage is not None
    assert {attack.base for attack in made["mine:master_keys"]} == {"nothing"}


def test_a_mark_before_utf_8_changes_nothing(suite: Path, tasks: list[Task]) -> None:
    target = Target(tasks[0])

    def attacks() -> dict[str, list[str]]:
        families = read_suite(suite).families
        return {
            name: [one.response for one in build(target)]
            for name, build in families.items()
        }

    before = attacks()
    for path in suite.rglob("*"):
        if path.is_file():
            path.write_bytes(BOM_UTF8 + path.read_bytes())
    assert attacks() == before


def test_a_suite_is_judged_beside_the_package_s_own(
    suite: Path, tasks: list[Task]
) -> None:
    plan = plan_attacks(tasks, {**FAMILIES, **read_suite(suite).families})

    result = LexicalJudge().judge_now
    assert all(result(one.view).outcome is Outcome.SCORED for one in plan.cases)


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("a.jsonl", '{"id": "x"}', "a.jsonl:1: field 'category'"),
        (
            "a.jsonl",
            '{"id":"x","category":"c","where":"here","template":"Zyzzyva"}',
            "'where'",
        ),
        ("null_response.json", '{"other": "Zyzzyva"}', "does not have the form"),
    ],
)
def test_a_file_of_another_form_is_named_and_not_shown(
    tmp_path: Path, name: str, content: str, problem: str
) -> None:
    (tmp_path / name).write_text(content)

    with pytest.raises(RubricFileError) as caught:
        read_suite(tmp_path)
    assert problem in str(caught.value)
    assert "Zyzzyva" not in str(caught.value)


def test_a_folder_without_attacks_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="none of its 0 files holds attacks"):
        read_suite(tmp_path)
    with pytest.raises(ConfigError, match="there is no such folder"):
        read_suite(tmp_path / "none")
