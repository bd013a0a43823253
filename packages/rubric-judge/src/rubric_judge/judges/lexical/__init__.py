"""The embedded judge: no model, no network, the same score for the same text for ever."""
