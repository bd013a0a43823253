"""From markup and print to prose: Markdown, HTML, pages of a PDF, reStructuredText docstrings."""
