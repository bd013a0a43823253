"""Prose by rules, and the bound of it: spaCy parses the whole text of the same documents."""

import time
from pathlib import Path

from rubric_synth import SynthConfig, read_collected, synthesise
from rubric_synth.stages.extractive.facts.parsing import grammar


def rules_cpu_s(collected: Path, out: Path) -> float:
    """Return the CPU of a run without a model in one process, once the grammar is loaded."""
    grammar()
    began_s = time.process_time()
    synthesise(collected, out, config=SynthConfig(processes=1))
    return time.process_time() - began_s


def spacy_cpu_s(collected: Path) -> float:
    """Return the CPU of spaCy's parse of the documents, once it is loaded."""
    texts = [document.text for document in read_collected(collected)]
    model = grammar()
    began_s = time.process_time()
    for _ in model.pipe(texts, batch_size=64):
        pass
    return time.process_time() - began_s


def rules_wall_s(collected: Path, out: Path) -> float:
    """Return the time of a run without a model as a command makes it, in as many processes."""
    began_s = time.perf_counter()
    synthesise(collected, out)
    return time.perf_counter() - began_s
