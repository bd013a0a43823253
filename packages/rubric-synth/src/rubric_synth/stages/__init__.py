"""The stages of a synthesiser, and the two synthesisers that come with the package."""
