from rubric_eval.comparison.stages import Comparison as Comparison
from rubric_eval.comparison.stages import ComparisonRow as ComparisonRow
from rubric_eval.comparison.stages import best_temperature as best_temperature
from rubric_eval.comparison.stages import blind_pairing as blind_pairing
from rubric_eval.comparison.stages import compare as compare
from rubric_eval.errors import ComparisonError as ComparisonError
from rubric_eval.errors import EvalEditedError as EvalEditedError
from rubric_eval.errors import EvalError as EvalError
from rubric_eval.errors import EvalFolderError as EvalFolderError
from rubric_eval.errors import EvalShapeError as EvalShapeError
from rubric_eval.errors import HeldoutAbortError as HeldoutAbortError
from rubric_eval.errors import SelectionLeakError as SelectionLeakError
from rubric_eval.heldout.in_memory import Heldout as Heldout
from rubric_eval.heldout.in_memory import judge_heldout as judge_heldout
from rubric_eval.statistics.intervals import Difference as Difference
from rubric_eval.statistics.intervals import Interval as Interval
from rubric_eval.statistics.intervals import mean_interval as mean_interval
from rubric_eval.statistics.intervals import paired_interval as paired_interval

__version__: str
