"""Held-out reward as a task of lm-eval: judged at once, kept in a ledger, refused when lost."""

from __future__ import annotations

import importlib
import json
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any

import pytest

from rubric_core import ConfigError, Section, write_tasks
from rubric_core.files import write_lines
from rubric_core.schema.conversation import as_question
from rubric_eval.errors import BenchmarkDataError, HeldoutAbortError
from rubric_eval.lm_tasks import TASKS_PATH
from rubric_eval.lm_tasks.sources import heldout
from rubric_judge import JudgeSetupError, Ledger
from rubric_judge.testing import FakeEndpoint, Fault

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rubric_core import Task

pytest.importorskip("lm_eval")

ROUTER = """
model_list:
  - {{model_name: judge, litellm_params: {{model: openai/small, api_key: k, api_base: "{one}"}}}}
  - {{model_name: spare, litellm_params: {{model: openai/large, api_key: k, api_base: "{other}"}}}}
router_settings: {{fallbacks: [{{judge: [spare]}}]}}
"""

ASKED: list[str] = []
"""Questions that came to the model, and from no cache."""


@pytest.fixture
def questions(make_task: Callable[..., Task], tmp_path: Path) -> Path:
    path = tmp_path / "test.jsonl"
    with path.open("wb") as file:
        write_lines(
            file,
            (make_task(number).to_json(reveal_grounding=True) for number in range(6)),
        )
    return path


@pytest.fixture
def lexical(tmp_path: Path) -> Path:
    path = tmp_path / "lexical.yaml"
    path.write_text("type: lexical\n", encoding="utf-8")
    return path


def _evaluate(
    say: str | None, *, cache: Path | None = None, **metadata: object
) -> dict[str, Any]:
    import lm_eval
    from lm_eval.api.model import LM
    from lm_eval.tasks import TaskManager

    class Scripted(LM):
        def generate_until(self, requests: list[Any]) -> list[str | None]:
            for request in requests:
                ASKED.append(request.args[0])
                self.cache_hook.add_partial("generate_until", request.args, say)
            return [say for _ in requests]

        def loglikelihood(self, requests: list[Any]) -> list[tuple[float, bool]]:
            raise NotImplementedError

        def loglikelihood_rolling(self, requests: list[Any]) -> list[float]:
            raise NotImplementedError

    manager = TaskManager(
        include_defaults=False, include_path=str(TASKS_PATH), metadata=metadata
    )
    return lm_eval.simple_evaluate(
        model=Scripted(),
        tasks=["rubric_heldout"],
        task_manager=manager,
        use_cache=None if cache is None else str(cache),
        bootstrap_iters=10,
    )


def test_responses_are_scored_by_criterion_and_nothing_of_the_judge_is_logged(
    questions: Path, lexical: Path, tmp_path: Path
) -> None:
    ledger = tmp_path / "ledger.sqlite"
    done = _evaluate(
        "It does rows.",
        questions=str(questions),
        judge=str(lexical),
        ledger=str(ledger),
    )

    metrics = done["results"]["rubric_heldout"]
    assert 0 <= metrics["rubric_reward,none"] <= 1
    assert metrics["judge_unavailable,none"] == 0
    assert isinstance(metrics["rubric_reward_stderr,none"], float)
    assert {"z_purpose,none", "z_returns,none"} <= set(metrics)
    logged = json.dumps(done["samples"], default=str)
    assert "It does rows." in logged
    assert "CANARY" not in logged
    with Ledger(ledger) as kept:
        assert len(list(kept.entries())) == 6


def test_a_reply_without_a_text_is_an_empty_answer(
    questions: Path, tmp_path: Path
) -> None:
    with FakeEndpoint(1.0) as endpoint:
        judge = str(_llm(tmp_path / "judge.yaml", endpoint.url))
        done = _evaluate(None, questions=str(questions), judge=judge)

    metrics = done["results"]["rubric_heldout"]
    assert metrics["rubric_reward,none"] == 0
    assert metrics["judge_invalid,none"] == metrics["judge_unavailable,none"] == 0


@pytest.mark.parametrize(("score", "said"), [(1.0, "right"), (0.0, "wrong")])
def test_right_answers_score_one_and_wrong_ones_nothing_on_a_cold_and_a_warm_cache(
    questions: Path, tmp_path: Path, score: float, said: str
) -> None:
    ledger = str(tmp_path / "ledger.sqlite")
    with FakeEndpoint(score) as endpoint:
        judge = str(_llm(tmp_path / "judge.yaml", endpoint.url))
        given = {"questions": str(questions), "judge": judge, "ledger": ledger}
        asked = len(ASKED)
        cold = _evaluate(said, cache=tmp_path / "cache", **given)
        assert len(ASKED) == asked + 6
        judged = len(endpoint.calls)
        warm = _evaluate(said, cache=tmp_path / "cache", **given)
        assert len(ASKED) == asked + 6
        assert len(endpoint.calls) - judged in {
            0,
            1,
        }  # whether the judge is there is asked first

    for done in (cold, warm):
        metrics = done["results"]["rubric_heldout"]
        assert metrics["rubric_reward,none"] == score
        assert metrics["z_purpose,none"] == metrics["z_returns,none"] == score
        assert metrics["judge_invalid,none"] == metrics["judge_unavailable,none"] == 0


@pytest.mark.slow  # litellm's router is imported
def test_the_share_that_a_fallback_judged_is_a_metric(
    questions: Path, tmp_path: Path
) -> None:
    (tmp_path / "judge.yaml").write_text(
        "type: llm\nmodel: judge\nlitellm_config: router.yaml\nallow_fallback_models: true\n"
        "backoff_s: 0.01\n"
    )
    faults = chain([None] * 4, repeat(Fault.SERVER_ERROR))
    with FakeEndpoint(faults=faults) as one, FakeEndpoint() as other:
        (tmp_path / "router.yaml").write_text(
            ROUTER.format(one=one.url, other=other.url)
        )
        done = _evaluate(
            "right", questions=str(questions), judge=str(tmp_path / "judge.yaml")
        )
        share = done["results"]["rubric_heldout"]["judge_fallback,none"]
        assert share == pytest.approx(len(other.calls) / 6) != 0


@pytest.mark.parametrize("missing", ["questions", "judge"])
def test_a_run_that_lacks_something_says_what_to_give(
    questions: Path, lexical: Path, missing: str
) -> None:
    given = {"questions": str(questions), "judge": str(lexical)}
    del given[missing]

    with pytest.raises(ConfigError, match=f"lacks {missing}"):
        _evaluate("x", **given)


@pytest.mark.parametrize(
    "wrong", [{"workers": 0}, {"workers": "many"}, {"max_unavailable_frac": 2}]
)
def test_settings_that_cannot_be_are_refused(
    questions: Path, lexical: Path, wrong: dict[str, object]
) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        _evaluate("x", questions=str(questions), judge=str(lexical), **wrong)


def test_a_file_without_questions_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_text("")

    with pytest.raises(BenchmarkDataError, match="holds no task"):
        heldout(questions=str(tmp_path / "empty.jsonl"))


def test_a_question_that_is_there_twice_is_refused(questions: Path) -> None:
    lines = questions.read_text("utf-8").splitlines()
    questions.write_text("\n".join([*lines, lines[1]]), "utf-8")

    with pytest.raises(
        BenchmarkDataError, match=r"test.jsonl: task .* as number 2 and 7"
    ):
        heldout(questions=str(questions))


def _llm(path: Path, address: str) -> Path:
    path.write_text(
        f"type: llm\nmodel: openai/fake\ntransport: direct\napi_base: {address}\n"
        "max_transport_attempts: 1\ntimeout_s: 10\ndeadline_s: 20\n",
        encoding="utf-8",
    )
    return path


def test_a_judge_that_is_not_there_is_found_out_before_any_answer(
    questions: Path, tmp_path: Path
) -> None:
    judge = _llm(tmp_path / "judge.yaml", "http://127.0.0.1:9/v1")

    with pytest.raises(JudgeSetupError):
        _evaluate("x", questions=str(questions), judge=str(judge))


def test_a_judge_that_goes_down_ends_the_run_and_what_was_judged_is_kept(
    questions: Path, tmp_path: Path
) -> None:
    ledger = str(tmp_path / "ledger.sqlite")
    with FakeEndpoint(
        0.5, faults=[None, None, None, *[Fault.SERVER_ERROR] * 4]
    ) as endpoint:
        judge = str(_llm(tmp_path / "judge.yaml", endpoint.url))
        given = {"questions": str(questions), "judge": judge, "ledger": ledger}
        with pytest.raises(HeldoutAbortError, match="server_error") as caught:
            _evaluate("x", **given)
        judged = 6 - caught.value.reasons["server_error"]
        before = len(endpoint.calls)
        done = _evaluate("x", **given)
        again = len(endpoint.calls) - before

    assert 0 < judged < 6
    assert done["results"]["rubric_heldout"]["rubric_reward,none"] == 0.5
    assert again - (6 - judged) in {0, 1}  # whether the judge is there is asked first


def test_a_few_lost_judgements_are_left_out_and_counted(
    questions: Path, tmp_path: Path
) -> None:
    with FakeEndpoint(0.5, faults=[None, None, Fault.SERVER_ERROR]) as endpoint:
        judge = str(_llm(tmp_path / "judge.yaml", endpoint.url))
        done = _evaluate(
            "x", questions=str(questions), judge=judge, max_unavailable_frac="0.2"
        )

    metrics = done["results"]["rubric_heldout"]
    assert metrics["judge_unavailable,none"] == pytest.approx(1 / 6)
    assert metrics["rubric_reward,none"] == 0.5


def test_open_book_questions_are_asked_with_their_context(
    make_task: Callable[..., Task], tmp_path: Path
) -> None:
    held = (Section(doc_hash="d", heading="Sums", text="A sum adds."),)
    tasks = [
        make_task(number).model_copy(update={"context": held}) for number in range(2)
    ]
    path = tmp_path / "open.jsonl"
    with path.open("wb") as file:
        write_lines(file, (task.to_json(reveal_grounding=True) for task in tasks))

    asked = [row["question"] for row in heldout(str(path))["test"]]
    assert asked == [task.policy_view().message for task in tasks]


CONVERSATION = (
    ("system", "Be brief."),
    ("user", "What does it do?"),
    ("assistant", "It adds."),
    ("user", "Along which axis?"),
)


@pytest.fixture
def conversation(make_task: Callable[..., Task], tmp_path: Path) -> Path:
    changes = {"question": as_question(CONVERSATION), "conversation": True}
    path = tmp_path / "conversation.jsonl"
    write_tasks(path, [make_task(0).model_copy(update=changes), make_task(1)])
    return path


def _served(path: Path, judge: Path, **options: Any) -> list[list[dict[str, str]]]:
    """Evaluate a server through lm-eval's own client, and return the messages that it was sent."""
    from lm_eval.tasks import TaskManager

    harness: Any = importlib.import_module("lm_eval")

    metadata = {"questions": str(path), "judge": str(judge)}
    manager = TaskManager(
        include_defaults=False, include_path=str(TASKS_PATH), metadata=metadata
    )
    with FakeEndpoint(0.5) as endpoint:
        harness.simple_evaluate(
            model="local-chat-completions",
            model_args={
                "model": "policy",
                "base_url": f"{endpoint.url}/chat/completions",
            },
            tasks=["rubric_heldout"],
            task_manager=manager,
            apply_chat_template=True,
            bootstrap_iters=10,
            **options,
        )
        return [call.messages for call in endpoint.calls]


def test_a_conversation_is_asked_by_its_messages(
    conversation: Path, lexical: Path, make_task: Callable[..., Task]
) -> None:
    asked = _served(conversation, lexical)

    told = [[(m["role"], m["content"]) for m in messages] for messages in asked]
    plain = make_task(1).policy_view().message
    assert sorted(told, key=len) == [[("user", plain)], list(CONVERSATION)]


def test_an_instruction_stands_before_a_conversation_s_own(
    conversation: Path, lexical: Path
) -> None:
    asked = _served(conversation, lexical, system_instruction="Speak English.")

    longest = max(asked, key=len)
    assert [m["role"] for m in longest] == ["system", "user", "assistant", "user"]
    assert longest[0]["content"] == "Speak English.\n\nBe brief."


def test_a_conversation_without_a_template_is_one_text_and_said_once(
    conversation: Path, lexical: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ASKED.clear()

    _evaluate("It is.", questions=str(conversation), judge=str(lexical))

    assert as_question(CONVERSATION) in ASKED
    said = [r for r in caplog.records if "asked as one text" in r.getMessage()]
    assert len(said) == 1
    assert "give --apply_chat_template" in said[0].getMessage()
