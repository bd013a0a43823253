"""The run folder: what is written while a policy is trained, and how it survives a kill.

    config.resolved.yaml  environment.json  metrics.jsonl  heldout.jsonl  summary.json
    admission.json                which criteria a calibration masks, where there is one
    rollouts/step_000001.jsonl    the policy's side: prompt, response, reward, advantage
    judgements/step_000001.jsonl  the judge's side: its result and the attribution
    ledger.sqlite                 the judge's side: every call of a language model, once
    checkpoints/step_000010/      Hugging Face format and trainer_state.pt; `best` points at one
    tensorboard/
    trackers/                     what each of `trackers` was shown, and its log

The two row files of a step are joined by id; nothing on the policy's side reads the second.
"""
