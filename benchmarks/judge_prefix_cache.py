"""Tokens that a server computes in prefill: the paper's prompt order over ours.

A real vLLM on the CPU serves a random Llama; `LLMJudge` and `JudgePool` judge groups of responses
with each layout of the prompt, and the server's own counters say how many tokens it computed and
how many it had. Longest common prefixes of the tokenised prompts predict the same numbers. Two
replicas are asked group by group, as the pool does it, and call by call. A scripted endpoint then
gives the labels of the lexical judge to both layouts: the results must be the same.

    uv run --extra openrlhf-cpu python benchmarks/judge_prefix_cache.py [--quick] [--json PATH]
"""

from __future__ import annotations

import argparse
import logging
import sysconfig
import tempfile
import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import anyio
import structlog
from prometheus_client.parser import text_string_to_metric_families
from record import finish

from rubric_core import Criterion, Grounding, JudgeResult, JudgeView, Rubric, Task
from rubric_judge import JudgeConfig, JudgePool, LexicalJudge, load_replicas
from rubric_judge.judges.capabilities import close
from rubric_judge.testing import FakeCall, FakeEndpoint
from rubric_judge.testing.vllm import VLLMServer
from rubric_train_openrlhf.policy import TinyConfig, build_tiny_llama, build_tokenizer

CLAIM = "a group's prompts share their prefix: the paper's order computes 2.4 times as many tokens"
TARGET = 2.4
OVER_NO_SHARING = 8.0
REPLICA_COST = 1.05
LAYOUTS = ("paper", "shared_prefix")
BLOCK = 128
"""Tokens in a block of the cache, vLLM's default on a CPU: what is shared is whole blocks."""
CHAT = (
    "{% for m in messages %}<bos>{{ m['role'] }}\n{{ m['content'] }}<eos>\n{% endfor %}"
    "{% if add_generation_prompt %}<bos>assistant\n{% endif %}"
)
LONGEST_TOKENS = 8192
NO_DEADLINE_S = 86_400.0
"""All calls wait for one server at once, and only its counters are read: no clock may end them."""
WORDS = (
    "import",
    "return",
    "argument",
    "object",
    "default",
    "method",
    "string",
    "number",
)

Messages = list[dict[str, str]]


@dataclass(frozen=True)
class Workload:
    """What is judged, and by how large a model."""

    prompts: int = 4
    group_size: int = 16
    passage_tokens: int = 3000
    criteria_tokens: int = 750
    response_tokens: int = 150
    hidden_size: int = 512
    layers: int = 8
    reply_tokens: int = 32
    """Cut off there: every reply costs the same."""


@dataclass(frozen=True)
class Counts:
    """What a server has done, or did between two readings."""

    sent: float
    computed: float
    hits: float
    seconds: float = 0.0

    def since(self, before: Counts) -> Counts:
        """Return the difference."""
        return Counts(
            sent=self.sent - before.sent,
            computed=self.computed - before.computed,
            hits=self.hits - before.hits,
            seconds=self.seconds - before.seconds,
        )


def main() -> None:
    """Run the comparison and print its ratio."""
    parser = argparse.ArgumentParser(description=CLAIM)
    parser.add_argument("--json", type=Path, help="write the result to this file")
    parser.add_argument(
        "--quick", action="store_true", help="one server, two prompts, tiny model"
    )
    arguments = parser.parse_args()
    workload = Workload()
    if arguments.quick:
        workload = Workload(prompts=2, hidden_size=64, layers=2)
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR)
    )
    with tempfile.TemporaryDirectory() as folder:
        result = compare(workload, Path(folder), replicas=not arguments.quick)
    print(
        f"{result['value']:.2f} times the tokens (target {TARGET}): {result['passed']=}"
    )
    finish(result, arguments.json)


def compare(workload: Workload, model: Path, *, replicas: bool) -> dict[str, Any]:
    """Judge the workload with both layouts and put the server's counts beside each other.

    Args:
        workload: sizes.
        model: an empty folder for the model.
        replicas: also start a second server, and one that caches nothing.

    Returns:
        The benchmark's record; its value is tokens computed, paper over shared prefix.
    """
    tokenizer = save_model(model, workload)
    views = make_views(tokenizer, workload)
    messages, same_results = contract(views)
    predicted = {
        layout: predicted_prefill(tokenised(tokenizer, messages[layout]))
        for layout in LAYOUTS
    }
    details: dict[str, Any] = {"workload": asdict(workload), "predicted": predicted}
    with ExitStack() as stack:
        first = stack.enter_context(serve(model))
        one = {layout: measured(layout, views, [first], workload) for layout in LAYOUTS}
        details["one_server"] = {
            layout: asdict(counts) for layout, counts in one.items()
        }
        if replicas:
            second = stack.enter_context(serve(model))
            details["two_replicas"] = {
                "groups_kept": asdict(
                    measured("shared_prefix", views, [first, second], workload)
                ),
                "round_robin": asdict(round_robin(views, [first, second], workload)),
            }
    if replicas:
        with serve(model, "--no-enable-prefix-caching") as uncached:
            group = views[: workload.group_size]
            details["no_cache_one_group"] = asdict(
                measured("shared_prefix", group, [uncached], workload)
            )
    return record(one, details, same_results=same_results)


def record(
    one: dict[str, Counts], details: dict[str, Any], *, same_results: bool
) -> dict[str, Any]:
    """Put the measurements beside their targets."""
    paper, shared = (one[layout] for layout in LAYOUTS)
    value = paper.computed / shared.computed
    details["over_no_sharing"] = shared.sent / shared.computed
    details["wall_ratio"] = paper.seconds / shared.seconds
    details["same_results_by_both_layouts"] = same_results
    details["predicted_exactly"] = all(
        one[layout].computed == details["predicted"][layout] for layout in LAYOUTS
    )
    passed = [
        value >= TARGET,
        details["over_no_sharing"] >= OVER_NO_SHARING,
        details["predicted_exactly"],
        same_results,
    ]
    for name, counts in details.get("two_replicas", {}).items():
        details[f"{name}_over_one_server"] = counts["computed"] / shared.computed
    if "two_replicas" in details:
        passed.append(details["groups_kept_over_one_server"] <= REPLICA_COST)
    return {
        "claim": CLAIM,
        "value": value,
        "target": TARGET,
        "direction": "at least",
        "passed": all(passed),
        "details": details,
    }


def save_model(folder: Path, workload: Workload) -> Any:
    """Build a random Llama and a tokenizer, and save them; return the tokenizer."""
    tokenizer = build_tokenizer(sources(), LONGEST_TOKENS)
    tokenizer.chat_template = CHAT
    config = TinyConfig(
        vocab_size=len(tokenizer),
        hidden_size=workload.hidden_size,
        intermediate_size=2 * workload.hidden_size,
        layers=workload.layers,
        heads=workload.hidden_size // 32,
        kv_heads=2,
        max_positions=LONGEST_TOKENS,
    )
    build_tiny_llama(config, seed=0).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return tokenizer


def sources() -> list[str]:
    """Return texts that every machine with Python has."""
    paths = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))[:60]
    return [path.read_text("utf-8") for path in paths]


def make_views(tokenizer: Any, workload: Workload) -> list[JudgeView]:
    """Make groups of responses to questions on passages, of the workload's lengths in tokens."""
    ids = iter(chain.from_iterable(tokenizer.encode(text) for text in sources()))

    def text(tokens: int) -> str:
        return tokenizer.decode([next(ids) for _ in range(tokens)]).strip()

    def criterion(number: int, word: str) -> Criterion:
        described = text(
            workload.criteria_tokens // len(WORDS) - 24
        )  # the rest is its frame
        return Criterion(
            id=f"c{number}",
            weight=1 + number,
            description=described,
            required_elements=(word,),
        )

    views: list[JudgeView] = []
    for prompt in range(workload.prompts):
        task = Task(
            question=f"What does part {prompt} do?",
            grounding=Grounding(text(workload.passage_tokens)),
            rubric=Rubric(
                criteria=tuple(criterion(*pair) for pair in enumerate(WORDS))
            ),
        )
        for number in range(workload.group_size):
            named = WORDS[: (number + prompt) % (len(WORDS) + 1)]
            said = " ".join(f"It explains what the {word} is for." for word in named)
            filler = workload.response_tokens - len(tokenizer.encode(said))
            views.append(task.judge_view(f"{said}\n\n{number}: {text(filler)}"))
    return views


def contract(views: Sequence[JudgeView]) -> tuple[dict[str, list[Messages]], bool]:
    """Judge by a scripted endpoint that gives the lexical judge's labels.

    Returns:
        What was sent, by layout in the order of the views, and whether both layouts end in the
        same results.
    """
    labels = {
        view.response: anyio.run(LexicalJudge().judge, view).scores for view in views
    }

    def award(call: FakeCall) -> dict[str, float]:
        return labels[response_in(call)]

    def response_in(call: FakeCall) -> str:
        said = call.messages[-1]["content"]
        return next(response for response in labels if response in said)

    sent: dict[str, list[Messages]] = {}
    results: dict[str, list[JudgeResult]] = {}
    for layout in LAYOUTS:
        with FakeEndpoint(award) as endpoint:
            config = judge_config(layout, [endpoint.url])
            results[layout] = judge_all(config, views)
            by_response = {response_in(call): call.messages for call in endpoint.calls}
        sent[layout] = [by_response[view.response] for view in views]
    paper, shared = (
        [comparable(result) for result in results[layout]] for layout in LAYOUTS
    )
    right = all(
        result.scores == labels[view.response]
        for view, result in zip(views, results["paper"], strict=True)
    )
    return sent, right and paper == shared


def comparable(result: JudgeResult) -> JudgeResult:
    """Leave out what names the layout or the server, and what a clock says."""
    left_out = {"judge": "", "latency_s": None, "usage": None, "answered_by": None}
    return result.model_copy(update=left_out)


def tokenised(tokenizer: Any, calls: Iterable[Messages]) -> list[list[int]]:
    """Return the prompts as the server reads them."""
    return [
        tokenizer.encode(
            tokenizer.apply_chat_template(
                messages, tokenize=False, add_generation_prompt=True
            ),
            add_special_tokens=False,
        )
        for messages in calls
    ]


def predicted_prefill(prompts: Sequence[Sequence[int]]) -> int:
    """Count the tokens that are in no whole block shared with an earlier prompt."""
    computed = 0
    for position, prompt in enumerate(prompts):
        shared = max(
            (common(prompt, earlier) for earlier in prompts[:position]), default=0
        )
        computed += len(prompt) - min(shared, len(prompt) - 1) // BLOCK * BLOCK
    return computed


def common(one: Sequence[int], other: Sequence[int]) -> int:
    """Return the length of the longest common prefix."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(one), len(other)))


def serve(model: Path, *options: str) -> VLLMServer:
    """Return a server of the model."""
    common_options = ("--dtype", "bfloat16", "--max-model-len", str(LONGEST_TOKENS))
    return VLLMServer(model, options=(*common_options, *options))


def judge_config(layout: str, addresses: Sequence[str], **more: object) -> JudgeConfig:
    """Return a judge of one or more replicas."""
    options = {
        "model": VLLMServer.name,
        "transport": "direct",
        "api_base": tuple(addresses),
        "prompt": layout,
        "temperature": 0.0,
        "timeout_s": NO_DEADLINE_S,
        "deadline_s": NO_DEADLINE_S,
        **more,
    }
    return JudgeConfig.model_validate(options)


def judge_all(config: JudgeConfig, views: Sequence[JudgeView]) -> list[JudgeResult]:
    """Judge all views at once."""

    async def run() -> list[JudgeResult]:
        judges = load_replicas(config)
        try:
            return await JudgePool(judges, workers=len(views), micro_batch=1).judge_all(
                views
            )
        finally:
            for judge in judges:
                await close(judge)

    return anyio.run(run)


def measured(
    layout: str,
    views: Sequence[JudgeView],
    servers: Sequence[VLLMServer],
    workload: Workload,
) -> Counts:
    """Judge with empty caches and return what the servers did."""
    before = emptied(servers)
    config = judge_config(
        layout, [server.url for server in servers], max_tokens=workload.reply_tokens
    )
    answered(judge_all(config, views))
    return counted(servers).since(before)


def round_robin(
    views: Sequence[JudgeView], servers: Sequence[VLLMServer], workload: Workload
) -> Counts:
    """Deal the calls out to the servers in turn, as a plain load balancer does."""
    before = emptied(servers)
    for turn, server in enumerate(servers):
        config = judge_config(
            "shared_prefix", [server.url], max_tokens=workload.reply_tokens
        )
        answered(judge_all(config, views[turn :: len(servers)]))
    return counted(servers).since(before)


def answered(results: Sequence[JudgeResult]) -> None:
    """Refuse a run in which a call did not come through; cut off, every reply is `truncated`."""
    missing = [result.detail for result in results if result.reason != "truncated"]
    if missing:
        message = f"{len(missing)} of {len(results)} calls failed, first: {missing[0]}"
        raise RuntimeError(message)


def emptied(servers: Sequence[VLLMServer]) -> Counts:
    """Empty the caches and return the counts so far."""
    for server in servers:
        server.forget_prefixes()
    return counted(servers)


def counted(servers: Sequence[VLLMServer]) -> Counts:
    """Add up the servers' counts."""
    samples = [
        (sample.name, sample.labels.get("source"), sample.value)
        for server in servers
        for family in text_string_to_metric_families(server.metrics())
        for sample in family.samples
    ]

    def total(name: str, source: str | None = None) -> float:
        return sum(
            value
            for found, labelled, value in samples
            if (found, labelled) == (name, source)
        )

    return Counts(
        sent=total("vllm:prompt_tokens_total"),
        computed=total("vllm:prompt_tokens_by_source_total", "local_compute"),
        hits=total("vllm:prefix_cache_hits_total"),
        seconds=time.perf_counter(),
    )


if __name__ == "__main__":
    main()
