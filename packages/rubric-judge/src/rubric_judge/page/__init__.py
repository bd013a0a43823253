"""HTML pages of all packages: one frame, one security policy, texts of models made visible."""

from __future__ import annotations

from rubric_judge.page.rendering import inert_json, render_page
from rubric_judge.page.visible import shortened, visible

__all__ = ["inert_json", "render_page", "shortened", "visible"]
