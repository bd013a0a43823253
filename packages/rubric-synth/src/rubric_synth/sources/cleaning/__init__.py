"""Conversion to prose of Markdown, HTML, pages of a PDF and reStructuredText docstrings."""
