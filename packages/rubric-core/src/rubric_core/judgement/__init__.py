"""Strict parsing of a judge's reply, and the result made from it."""
