from rubric_train_openrlhf.config.train import TrainConfig as TrainConfig
from rubric_train_openrlhf.config.train import load_config as load_config
from rubric_train_openrlhf.local.start import run_grpo as run_grpo
from rubric_train_openrlhf.report.page import Revealed as Revealed
from rubric_train_openrlhf.report.page import write_report as write_report
from rubric_train_openrlhf.report.several import write_runs_report as write_runs_report
from rubric_train_openrlhf.run.folder import RunFolder as RunFolder
from rubric_train_openrlhf.run.records import HeldoutRow as HeldoutRow
from rubric_train_openrlhf.run.records import MetricsRow as MetricsRow
from rubric_train_openrlhf.run.records import RunSummary as RunSummary

__version__: str
