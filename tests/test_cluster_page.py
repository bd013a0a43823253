"""docs/train/openrlhf.md: bash, Slurm's rules, Ray and `rubric-train` accept what it shows."""

import json
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from rubric_train_openrlhf.cli import app
from rubric_train_openrlhf.config.train import parse_config, read_values

ROOT = Path(__file__).resolve().parents[1]
TEXT = (ROOT / "docs" / "train" / "openrlhf.md").read_text("utf-8")
BLOCKS = re.findall(r"^```bash\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
PRESET = ROOT / "configs" / "train" / "paper_llama31_8b_8gpu.yaml"
(SCRIPT,) = [block for block in BLOCKS if block.startswith("#!")]
LINES = [
    words
    for block in BLOCKS
    if not block.startswith("#!")
    for line in re.sub(r"\\\n", " ", block).splitlines()
    if (words := shlex.split(line, comments=True))
]
NODES = 4
PROGRAMS = {
    # What Slurm and Ray would do is not here; the words that they are given are kept.
    "scontrol": '[ "$*" = "show hostnames node[1-4]" ] && printf "node%s\\n" 1 2 3 4',
    "srun": '[ "$1" = --overlap ] && shift\nexec "$@"',
    "vllm": 'echo "$CUDA_VISIBLE_DEVICES $*" >> "$HERE/served"',
    "curl": "exit 0",  # each server answers
    "ray": f'exec {shlex.quote(sys.executable)} "$HERE/ray.py" "$@"',
}
RAY = """
import json, os, pathlib, signal, sys, time
here = pathlib.Path(os.environ["HERE"])

def end(*_):
    (here / "ended").touch()
    raise SystemExit(143)

signal.signal(signal.SIGTERM, end)
(here / "words.part").write_text(json.dumps(sys.argv[1:]))
(here / "words.part").rename(here / "words.json")
time.sleep(float(os.environ["LASTS_S"]))
"""


def _start(folder: Path, *, lasts_s: float) -> subprocess.Popen[bytes]:
    """Start the page's script where Slurm would start it."""
    for name, line in PROGRAMS.items():
        program = folder / name
        program.write_text(f"#!/bin/bash\n{line}\n")
        program.chmod(0o755)
    (folder / "ray.py").write_text(RAY)
    (folder / "job.sh").write_text(SCRIPT)
    given = {
        "SLURM_JOB_NODELIST": "node[1-4]",
        "SLURM_NNODES": NODES,
        "HERE": folder,
        "LASTS_S": lasts_s,
    }
    start = 'PATH="$HERE:$PATH" exec bash "$HERE/job.sh"'
    words = [
        "env",
        *(f"{name}={value}" for name, value in given.items()),
        "bash",
        "-c",
        start,
    ]
    return subprocess.Popen(words)


def _resolved(words: list[str]) -> tuple[str, Any, bool]:
    """Parse a command of the page: its name, the configuration it reads, and `--resume`."""
    program, *arguments = words
    assert program == "rubric-train"
    command, bound, _ = app.parse_args(
        arguments, exit_on_error=False, print_error=False
    )
    given = bound.arguments
    path = (
        PRESET if given["config"] == Path("production.yaml") else ROOT / given["config"]
    )
    values = read_values(path, overrides=given.get("overrides", ()))
    return (
        command.__name__,
        parse_config(values, source=str(path)),
        given.get("resume", False),
    )


def test_the_slurm_script_is_one_of_bash_with_its_directives_first() -> None:
    subprocess.run(["bash", "-n"], input=SCRIPT, text=True, check=True)
    first, *lines = SCRIPT.splitlines()
    assert first == "#!/bin/bash"
    directives = [line for line in lines if line.startswith("#SBATCH ")]
    assert lines[: len(directives)] == directives, (
        "Slurm reads none behind the first command"
    )
    options = dict(
        line.removeprefix("#SBATCH --").partition("=")[::2] for line in directives
    )
    assert options["nodes"] == str(NODES)
    assert options["ntasks-per-node"] == "1", "one Ray on each machine"
    assert options["signal"].startswith("B:TERM@"), "the trap is the script's own"


def test_ray_and_the_command_accept_what_the_slurm_script_gives_them(
    tmp_path: Path,
) -> None:
    ray = pytest.importorskip("ray.scripts.scripts")
    from ray.scripts.symmetric_run import curate_and_validate_ray_start_args

    assert _start(tmp_path, lasts_s=0).wait(timeout=600) == 0

    name, *words = json.loads((tmp_path / "words.json").read_text())
    before, after = words[: words.index("--")], words[words.index("--") + 1 :]
    parsed = ray.cli.commands[name].make_context(name, list(words)).params
    assert (parsed["address"], parsed["min_nodes"]) == ("node1:6379", NODES)
    assert curate_and_validate_ray_start_args(before) == []
    command, config, resume = _resolved(after)
    assert (command, resume) == ("run", True)
    assert (config.cluster.nodes, config.cluster.ray.address) == (NODES, "auto")
    # One server on each GPU that the run leaves alone, and each by its machine's name.
    count = config.cluster.judge_gpus_per_node
    assert len(set(config.judge.spec.api_base)) == NODES * count
    served = [line.split() for line in (tmp_path / "served").read_text().splitlines()]
    left = range(config.cluster.gpus_per_node - count, config.cluster.gpus_per_node)
    assert sorted(words[0] for words in served) == [str(gpu) for gpu in left]
    ports = {words[words.index("--port") + 1] for words in served}
    assert all(
        any(f":{port}/" in one for port in ports) for one in config.judge.spec.api_base
    )


def test_the_slurm_script_hands_its_signal_on_and_waits(tmp_path: Path) -> None:
    job = _start(tmp_path, lasts_s=60)
    while not (tmp_path / "words.json").exists():
        assert job.poll() is None
        time.sleep(0.02)
    job.send_signal(signal.SIGTERM)
    assert job.wait(timeout=600) == 128 + signal.SIGTERM
    assert (tmp_path / "ended").exists()


@pytest.mark.parametrize(
    "words", [words for words in LINES if words[0] == "rubric-train"], ids=" ".join
)
def test_a_command_of_the_page_is_one_of_rubric_train(words: list[str]) -> None:
    _, config, _ = _resolved(words)
    assert config.backend == "openrlhf"


@pytest.mark.parametrize(
    "words", [words for words in LINES if words[0] == "ray"], ids=" ".join
)
def test_a_command_of_the_page_is_one_of_ray(words: list[str]) -> None:
    ray = pytest.importorskip("ray.scripts.scripts")
    _, name, *options = words
    command = ray.cli.commands[name]
    assert command.make_context(name, options).params
