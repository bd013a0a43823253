"""The policy's side, generating: engines, prompts and the groups that a step is trained on."""
