"""The judge that verifiers finds by its id: `[[env.taskset.task.judges]] id = "rubric-rewards"`.

verifiers imports a judge as a module of its own; nothing else imports this one.
"""

from rubric_judge.adapters.verifiers import judge_plugin

RubricRewardsJudge = judge_plugin()

__all__ = ["RubricRewardsJudge"]
