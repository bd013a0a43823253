"""Who answered one judge call: the deployment, and the model that it runs."""

from __future__ import annotations

from rubric_core.fields import Text
from rubric_core.sealed import Sealed


class Answerer(Sealed):
    """Who answered one judge call. Scores of another model are another reward."""

    model: Text
    """The model, as the server names it; as the configuration does where the server does not."""

    deployment: Text = ""
    """Host and port of the server, or the `id` of its deployment in a `litellm_config`; empty for
    the provider's own address. Never a key."""

    fallback: Text = ""
    """The group of a `litellm_config` that answered in place of the one that was asked."""
