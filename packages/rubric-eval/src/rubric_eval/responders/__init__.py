"""Models that answer questions: how one is named, and how it is opened.

spec     a model that was named
reading  from `NAME=KIND:WHERE`, or a YAML file, to specifications
connecting from such a specification to a chat model, and what its server says of it
chat     models behind a server, or anything that litellm can name
harness  Hugging Face folders, through lm-eval
draws    tokens of such a model, each answer by its own seed
held     rows of its batch that have no position left, and wait
weights  whether a server's model is still the one that it was
opening  from a specification to a model that can be asked, and its identity
"""

from __future__ import annotations

from rubric_eval.responders.opening import OpenModel, fingerprint, open_model, open_models
from rubric_eval.responders.reading import parse_model, parse_models, read_models
from rubric_eval.responders.spec import ModelSpec

__all__ = [
    "ModelSpec",
    "OpenModel",
    "fingerprint",
    "open_model",
    "open_models",
    "parse_model",
    "parse_models",
    "read_models",
]
