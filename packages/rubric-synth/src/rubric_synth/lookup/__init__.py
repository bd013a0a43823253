"""Lookup for the policy: documents cut into sections, found by the words of a question."""
