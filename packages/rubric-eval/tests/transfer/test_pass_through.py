"""lm-eval's command line with our tasks: what is read of it, whose a cache is, and real runs."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from rubric_core import ConfigError
from rubric_eval.transfer.pass_through import cache_key, read_arguments, run_lm_eval

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    "words",
    [
        [
            "run",
            "--model",
            "hf",
            "--use_cache",
            "c",
            "--model_args",
            "pretrained=a",
            "dtype=b",
        ],
        ["--model=hf", "--use_cache=c", "--model_args=pretrained=a", "dtype=b"],
        ["run", "-M", "hf", "-c", "c", "-a", "pretrained=a", "dtype=b"],
        [
            "run",
            "--use_c",
            "c",
            "--model",
            "hf",
            "--model_a",
            "pretrained=a",
            "dtype=b",
        ],
    ],
)
def test_the_arguments_that_matter_are_found_however_they_are_written(
    words: list[str],
) -> None:
    read, rest = read_arguments(words)

    assert (read.model, read.use_cache) == ("hf", "c")
    assert read.model_args == ["pretrained=a", "dtype=b"]
    assert "c" not in rest
    assert "pretrained=a" in " ".join(rest)


def test_all_other_arguments_are_left_as_they_are() -> None:
    words = ["--tasks", "a", "b", "--limit", "-1", "--gen_kwargs", "temperature=0.5"]

    assert (
        read_arguments([*words, "--config", "x.yaml", "--include_path", "d"])[1]
        == words
    )


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--limit", "0"], "limit 0 leaves no item"),
        (["-L", "0.0"], "limit 0.0 leaves no item"),
        (["--log_samples"], "lm-eval ended with ValueError: .*output_path"),
    ],
)
def test_arguments_that_lm_eval_refuses_are_said_in_one_line(
    more: list[str], said: str
) -> None:
    pytest.importorskip("lm_eval")

    with pytest.raises(ConfigError, match=said):
        run_lm_eval(
            ["run", "--model", "dummy", "--tasks", "rubric_gsm8k", *more], say=print
        )


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    pytest.importorskip("lm_eval")
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(b"weights")
    (folder / "config.json").write_text("{}")
    return folder


def test_two_models_never_share_a_cache(checkpoint: Path) -> None:
    given = [f"pretrained={checkpoint}"]
    keys = [
        cache_key("hf", given),
        cache_key("vllm", given),
        cache_key("hf", "pretrained=gpt2"),
    ]
    keys.append(cache_key("hf", [*given, "dtype=float32"]))
    keys.append(cache_key("hf", None))
    (checkpoint / "model.safetensors").write_bytes(b"trained")
    keys.append(cache_key("hf", given))
    (checkpoint / "adapter_config.json").write_text("{}")
    keys.append(cache_key("hf", given))

    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize(
    "written",
    [
        '{{"pretrained": "{0}"}}',
        '{{"dtype": "auto", "pretrained": "{0}", "more": {{"a": 1}}}}',
        '{{"more": {{"paths": ["{0}"]}}}}',
        'dtype=auto,pretrained="{0}"',
        "pretrained='{0}'",
        'paths=["gpt2","{0}"],dtype=auto',
    ],
)
def test_a_model_that_is_trained_on_is_another_however_it_is_written(
    checkpoint: Path, written: str
) -> None:
    given = [written.format(checkpoint)]
    before = cache_key("hf", given)
    assert cache_key("hf", given) == before
    (checkpoint / "model.safetensors").write_bytes(b"trained")
    assert cache_key("hf", given) != before


def test_json_and_words_name_one_model(checkpoint: Path) -> None:
    words = [f"pretrained={checkpoint}", "dtype=float32"]
    written = json.dumps({"dtype": "float32", "pretrained": str(checkpoint)})
    assert cache_key("hf", written) == cache_key("hf", words)
    assert cache_key("hf", '{"pretrained": "a,b"}') != cache_key(
        "hf", '{"pretrained": "a"}'
    )


def test_one_model_finds_its_cache_again(checkpoint: Path) -> None:
    given = [f"pretrained={checkpoint}", "dtype=float32"]

    assert cache_key("hf", given) == cache_key("hf", ",".join(reversed(given)))
    assert cache_key("hf", given) == cache_key(
        "hf", {"dtype": "float32", "pretrained": str(checkpoint)}
    )


# One process for both: to load lm-eval takes ten seconds.
ONE_AFTER_THE_OTHER = """
import json, sys
from rubric_eval.cli import main
for words in json.loads(sys.argv[1]):
    sys.argv[1:] = words
    try:
        main()
    except SystemExit as ended:
        print("status", ended.code or 0, flush=True)
"""


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_lm_eval_finds_our_tasks_and_keeps_caches_apart(tmp_path: Path) -> None:
    words = ["lm-eval", "run", "--model", "dummy", "--tasks", "rubric_gsm8k"]
    words += ["--metadata", "data=small", "--use_cache", str(tmp_path / "cache")]
    runs = [words, [*words, "--model_args", "other=1"]]

    done = subprocess.run(
        [sys.executable, "-c", ONE_AFTER_THE_OTHER, json.dumps(runs)],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    first, second, after = done.stdout.split("status 0\n")
    assert after == ""
    for printed in (first, second):
        assert "rubric_gsm8k" in printed
        assert "no_answer" in printed
    assert len(list(tmp_path.glob("cache.*_rank0.db"))) == 2
