"""What every test of the workspace shares: network, garbage and hypothesis profiles."""

from __future__ import annotations

import gc
import importlib.util
import ipaddress
import os
import signal
import socket
import stat
import sys
import sysconfig
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from rubric_judge.testing.vllm import VLLMServer

# Under `uv run`, Ray would copy this folder, and start every worker by `uv run` in the copy.
os.environ.setdefault("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")  # noqa: TID251  # read when Ray is imported

# Ray would start a worker for every CPU before any is asked for, and again for the variables of a
# run: of ten processes that import for seconds, most would do nothing.
os.environ.setdefault("RAY_prestart_worker_first_driver", "0")  # noqa: TID251  # read by its raylet

# Nothing is downloaded: where there is no network, every look at a hub is tried six times.
os.environ.setdefault("HF_HUB_OFFLINE", "1")  # noqa: TID251  # read when the hub's client is imported

# The tests are small, and each core has a process of its own: a second thread would only wait for
# the first, and one that waits by looking again and again takes the core from another test.
os.environ.setdefault("OMP_NUM_THREADS", "1")  # noqa: TID251  # read when torch is imported
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # noqa: TID251  # as above

# A deadline measures the machine, not the code; shared machines are slow at random moments.
settings.register_profile(
    "dev", deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(
    "ci", settings.get_profile("dev"), derandomize=True, max_examples=100
)
settings.load_profile("dev")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import no file that holds nothing of what `-m` asks for: all of them take half a minute."""
    asked: str = config.option.markexpr
    wanted = asked.partition(" ")[0]
    marks = {line.partition(":")[0] for line in config.getini("markers")}
    if wanted not in marks or " or " in asked or collection_path.suffix != ".py":
        return None
    return f"mark.{wanted}" not in collection_path.read_text("utf-8") or None


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Use every core for the whole suite, one for chosen files and for stacks that fill it."""
    whole = config.args_source is pytest.Config.ArgsSource.TESTPATHS
    heavy = {"stacks", "openrlhf", "vllm", "gpu"}
    asked = config.option.markexpr.partition(" ")[0] in heavy
    return min(os.cpu_count() or 1, 8) if whole and not asked else 0


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Leave what all tests import and collect out of every search for garbage.

    These are millions of objects, and looking through them took longer than many a test.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_runtest_teardown() -> None:
    """Forget where a command of the test logged to: its standard error is closed by now."""
    if "structlog" in sys.modules:
        sys.modules["structlog"].reset_defaults()


def _is_loopback(host: str) -> bool:
    if host in {"", "localhost"}:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _refuse_unless_loopback(address: object) -> None:
    if isinstance(address, tuple) and address and not _is_loopback(str(address[0])):
        message = f"tests may connect to this machine only, not to {address!r}"
        raise PermissionError(message)


@pytest.fixture(autouse=True)
def _progress_of_minutes_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no busy machine put a line of progress between those that a test reads."""
    if (
        importlib.util.find_spec("rubric_judge") is not None
    ):  # rubric-core is also tested alone
        monkeypatch.setattr("rubric_judge.ui.console.progress.QUIET_S", 60.0)


@pytest.fixture(scope="session", autouse=True)
def interruptible() -> None:
    """Let tests send SIGINT, which a shell's background job ignores, and its children with it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def loopback_only() -> Iterator[None]:
    """Let sockets connect to the loopback interface only."""
    connect, connect_ex = socket.socket.connect, socket.socket.connect_ex

    def guarded_connect(self: socket.socket, address: Any) -> None:
        _refuse_unless_loopback(address)
        connect(self, address)

    def guarded_connect_ex(self: socket.socket, address: Any) -> int:
        _refuse_unless_loopback(address)
        return connect_ex(self, address)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", guarded_connect)
        patch.setattr(socket.socket, "connect_ex", guarded_connect_ex)
        yield


@pytest.fixture(scope="session", autouse=True)
def quick_disk() -> Iterator[None]:
    """Let no test wait for the disk: they end processes, at any moment, and never the machine."""
    sync = os.fsync

    def quick(file: int | IO[Any]) -> None:
        kind = os.fstat(file if isinstance(file, int) else file.fileno()).st_mode
        if not (stat.S_ISREG(kind) or stat.S_ISDIR(kind)):
            sync(file)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", quick)
        yield


CHROMIUM = Path("/usr/bin/chromium")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Start Debian's Chromium, or skip."""
    api = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed"
    )
    if not CHROMIUM.exists():
        pytest.skip(f"no browser: there is no {CHROMIUM} (Debian's chromium)")
    with api.sync_playwright() as playwright:
        # A container's root has no sandbox to start one in.
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        found = playwright.chromium.launch(
            executable_path=str(CHROMIUM), args=arguments
        )
        yield found
        found.close()


@pytest.fixture
def wait_until() -> Callable[[Page, str], None]:
    """Wait for a condition of a page, of JavaScript, for ten seconds.

    The rules of our pages forbid `page.wait_for_function` to ask twice.
    """

    def wait(page: Page, condition: str) -> None:
        for _ in range(200):
            if page.evaluate(condition):
                return
            page.wait_for_timeout(50)
        raise AssertionError(condition)

    return wait


CHAT = (
    "{% for m in messages %}<bos>{{ m['role'] }}\n{{ m['content'] }}<eos>\n{% endfor %}"
    "{% if add_generation_prompt %}<bos>assistant\n{% endif %}"
)


@pytest.fixture(scope="session")
def make_chat_model(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Write a folder with a tiny chat model of random weights, of so many positions.

    As they are drawn, these repeat a prompt's last token for ever; with a `spread` of 4, no answer
    is like another.
    """

    def make(positions: int, *, seed: int = 0, spread: float = 1.0) -> Path:
        # Few tests need torch, and a package that is tested alone does not bring it.
        pytest.importorskip("rubric_train_openrlhf")
        from rubric_train_openrlhf.policy import (
            TinyConfig,
            build_tiny_llama,
            build_tokenizer,
        )

        folder = tmp_path_factory.mktemp("model")
        sources = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))[:40]
        tokenizer = build_tokenizer(
            (source.read_text("utf-8") for source in sources), 1024
        )
        tokenizer.chat_template = CHAT
        config = TinyConfig(
            vocab_size=len(tokenizer),
            hidden_size=64,
            layers=2,
            heads=2,
            kv_heads=2,
            max_positions=positions,
        )
        model = build_tiny_llama(config, seed=seed)
        for weights in model.model.layers.parameters():
            if weights.dim() > 1:
                weights.data *= spread
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        return folder

    return make


@pytest.fixture(scope="session")
def chat_model(make_chat_model: Callable[..., Path]) -> Path:
    """A tiny chat model with room for a document and an answer."""
    return make_chat_model(16_384)


@pytest.fixture(scope="session")
def misset_model(make_chat_model: Callable[..., Path]) -> Path:
    """A chat model that ends at once, as its template ends a turn; all else names another end.

    Its template ends a turn with `<eos>` (2); its tokenizer and settings say `<bos>` (1), as a GGUF
    file of SmolLM2 does.
    """
    import torch
    from transformers import AutoTokenizer, LlamaForCausalLM

    folder = make_chat_model(128)
    model: Any = LlamaForCausalLM.from_pretrained(folder)
    model.config.tie_word_embeddings = False
    with torch.no_grad():
        for weights in model.model.layers.parameters():
            weights.zero_()
        model.model.embed_tokens.weight.fill_(1.0)
        model.lm_head.weight = torch.nn.Parameter(
            torch.zeros_like(model.lm_head.weight)
        )
        model.lm_head.weight[2] = 1.0
    model.config.eos_token_id = model.generation_config.eos_token_id = 1
    model.save_pretrained(folder)
    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    tokenizer.add_special_tokens({"eos_token": "<bos>"})
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def smollm2_folder() -> Path:
    """A real model, SmolLM2-135M-Instruct; skips where its extra is not installed."""
    from rubric_core import MissingExtraError

    smollm2: Any = pytest.importorskip("rubric_train_openrlhf.policy.smollm2")

    try:
        return smollm2.model_folder()
    except MissingExtraError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def serve() -> Callable[[Path], VLLMServer]:
    """Make a real vLLM server of a model, not started yet."""
    from rubric_judge.testing.vllm import VLLMServer

    # What a server compiles at its start takes a minute, and the answers are the same. Its
    # cache is in memory from the start, and other tests run beside these.
    options = (
        "--dtype",
        "float32",
        "--enforce-eager",
        "--kv-cache-memory-bytes",
        str(256 * 2**20),
    )
    return lambda folder: VLLMServer(folder, options=options, start_within_s=900)


@pytest.fixture(scope="session")
def vllm(chat_model: Path, serve: Callable[[Path], VLLMServer]) -> Iterator[VLLMServer]:
    """One server for the tests of all packages, since a start takes a minute.

    Its counts and its prefix cache are those of all of them: compare counts, forget prefixes.
    """
    with serve(chat_model) as server:
        yield server


@pytest.fixture
def install_plugin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str, str, dict[str, dict[str, str]]], Path]:
    """Install a package of one module for this test, as a wheel's metadata would say it.

    Call it with the package's name, the text of its module (of the same name, with `_` for `-`),
    and its entry points by group; it returns the folder, which is on the path.
    """
    folder = tmp_path / "plugins"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)

    def install(name: str, text: str, entry_points: dict[str, dict[str, str]]) -> Path:
        module = name.replace("-", "_")
        (folder / f"{module}.py").write_text(text, encoding="utf-8")
        info = folder / f"{module}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.4\nName: {name}\nVersion: 1.0\n"
        )
        lines = [
            line
            for group, points in entry_points.items()
            for line in (
                f"[{group}]",
                *(f"{point} = {target}" for point, target in points.items()),
            )
        ]
        (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
        monkeypatch.delitem(sys.modules, module, raising=False)
        return folder

    return install
