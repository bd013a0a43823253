"""The `openrlhf` backend: the same algorithm through OpenRLHF, on Ray, DeepSpeed and vLLM."""
