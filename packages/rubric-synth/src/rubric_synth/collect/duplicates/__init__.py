"""Duplicates: equal, nearly equal and equally named documents, and questions asked twice."""
