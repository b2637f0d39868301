"""The build: a recipe becomes an engine, once for each digest."""

from tuner.build.build import build_engine, current_digests, default_launch
from tuner.build.cache import CachedEngine, list_engines, prune
from tuner.build.engine import Engine, Fingerprint
from tuner.build.extras import extra_packages
from tuner.build.foresee import Foreseen, foresee
from tuner.build.host import HostNeeds, host_needs
from tuner.build.kernels import KernelTimes, measure_kernels, policy_file
from tuner.build.load import Recipe, find_recipe, load_recipe, recipe_names
from tuner.build.model import make_model, model_folder, model_names
from tuner.build.progress import Progress, Report
from tuner.build.verify import CheckResult, verify_engine
from tuner.build.wheelhouse import fill_wheelhouse

__all__ = [
    "CachedEngine",
    "CheckResult",
    "Engine",
    "Fingerprint",
    "Foreseen",
    "HostNeeds",
    "KernelTimes",
    "Progress",
    "Recipe",
    "Report",
    "build_engine",
    "current_digests",
    "default_launch",
    "extra_packages",
    "fill_wheelhouse",
    "find_recipe",
    "foresee",
    "host_needs",
    "list_engines",
    "load_recipe",
    "make_model",
    "measure_kernels",
    "model_folder",
    "model_names",
    "policy_file",
    "prune",
    "recipe_names",
    "verify_engine",
]
