"""Of `training.evaluation`: the names that tf_slim takes from there."""
from penstock._src.compat.contrib.training.evaluation import StopAfterNEvalsHook, evaluate_once, get_or_create_eval_step

_StopAfterNEvalsHook, _evaluate_once, _get_or_create_eval_step = StopAfterNEvalsHook, evaluate_once, get_or_create_eval_step
