"""The attacks that ship with the package, by kind of trick; every text was written for it."""

from __future__ import annotations
