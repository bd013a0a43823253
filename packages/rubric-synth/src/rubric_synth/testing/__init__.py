"""Answers of a scripted model and documents by the thousand, for tests, dry runs and benchmarks.

>>> with FakeEndpoint(scripted_reply) as endpoint:
...     config = ModelConfig(model="fake", transport="direct", api_base=endpoint.url)
"""

from __future__ import annotations

from rubric_synth.testing.corpus import generated_documents
from rubric_synth.testing.scripted import scripted_reply, template_reply

__all__ = ["generated_documents", "scripted_reply", "template_reply"]
