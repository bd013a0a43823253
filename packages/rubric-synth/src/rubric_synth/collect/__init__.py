"""Collecting: sources to one folder of distinct, cleaned documents, and reading it back."""
