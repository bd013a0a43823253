from __future__ import annotations

import random
from collections import Counter

import pytest

from rubric_synth.extractive import phrases
from rubric_synth.extractive.phrases import RepeatedKeys


@pytest.mark.parametrize("exact_keys", [500_000, 300], ids=["counted", "filtered"])
def test_keys_that_come_three_times_are_found_whether_counted_or_filtered(
    exact_keys: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(phrases, "_EXACT_KEYS", exact_keys)
    generator = random.Random(0)
    known = [generator.getrandbits(64) for _ in range(2_000)]
    batches = [set(generator.sample(known, 100)) for _ in range(40)]
    keys = RepeatedKeys(3)
    for batch in batches:
        keys.add(batch)
    counts = Counter(key for batch in batches for key in batch)
    assert keys.keys == {key for key, count in counts.items() if count >= 3}
