from rubric_judge.serve.app import build_app as build_app
from rubric_judge.serve.config import ServeConfig as ServeConfig
from rubric_judge.serve.server import serve as serve
from rubric_judge.serve.service import JudgeService as JudgeService
