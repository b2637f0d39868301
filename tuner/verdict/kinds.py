"""The words of a judgement: verdicts, stages, what to do again."""

from __future__ import annotations

import enum


class Verdict(enum.StrEnum):
    """Why an engine ended as it did. The values are stable: ledgers and scripts keep them."""

    DEVICE_OOM_LOAD = "device_oom_load"
    DEVICE_OOM_PROFILING = "device_oom_profiling"
    DEVICE_OOM_CAPTURE = "device_oom_capture"
    DEVICE_OOM_RUN = "device_oom_run"
    KV_SEQUENCE = "kv_too_small_for_sequence"
    KV_SPACE = "kv_space_does_not_fit"
    HOST_OOM = "host_oom"
    FLAGS_REJECTED = "flags_rejected"
    UNSUPPORTED = "unsupported_combination"
    MISSING_BACKEND = "missing_backend"
    ENGINE_CRASH = "engine_crash"
    WORKER_CRASH = "worker_crash"
    DEAD_BEHIND_HEALTH = "dead_behind_health"
    UNASKED_EXIT = "unasked_exit"
    START_HANG = "start_hang"
    RUN_HANG = "run_hang"
    NON_FINITE = "non_finite"
    QUALITY_FAILED = "quality_failed"
    ANSWERS_DIFFER = "answers_differ"
    SILENT_FALLBACK = "silent_fallback"
    CONFIG_DIFFERS = "config_differs"
    RESIDUE = "residue"
    PORT_TAKEN = "port_taken"
    SICK_DEVICE = "sick_device"
    DRIVER_TROUBLE = "driver_trouble"
    HOST_TROUBLE = "host_trouble"
    COLLECTIVE_FAILED = "collective_failed"
    MODEL_UNREADABLE = "model_unreadable"
    CANCELLED = "cancelled"
    HEALTHY = "healthy"
    STOPPED_CLEANLY = "stopped_cleanly"
    UNKNOWN = "unknown"


class Stage(enum.StrEnum):
    """Where in its life an engine was, in order of time."""

    UNKNOWN = "unknown"
    STARTING = "starting"
    LOADING = "loading"
    PROFILING = "profiling"
    KV_CACHE = "kv_cache"
    CAPTURE = "graph_capture"
    READY = "ready"
    SERVING = "serving"
    STOPPING = "stopping"

    @property
    def order(self) -> int:
        """The stage's place in time; ``unknown`` is before all."""
        return _ORDER[self]

    @property
    def before_ready(self) -> bool:
        """Whether an engine in this stage has not answered yet."""
        return self.order < Stage.READY.order


_ORDER = {stage: place for place, stage in enumerate(Stage)}


class Retry(enum.StrEnum):
    """What may be done with the same point again."""

    NONE = "none"  # never: it would end the same way, or nothing went wrong
    AFTER_CLEANUP = "after_cleanup"  # once what was in the way is gone, a bounded number of times
    CONFIRM_ONCE = "confirm_once"  # once, to see whether it was chance; only then it teaches
    STOP_STUDY = "stop_study"  # no point can run until a person mends this
    CONFIRM_THEN_STOP = "confirm_then_stop"  # the same, once it is known that it was no chance


class Role(enum.StrEnum):
    """Which of an engine's processes wrote a line."""

    API = "api"
    ENGINE = "engine"
    WORKER = "worker"
    KERNEL = "kernel"  # the operating system's own log
    NONE = "none"  # not said


class Level(enum.IntEnum):
    """How bad the writer of a line thought it was."""

    NONE = 0  # not said
    DEBUG = 10
    INFO = 20
    WARNING = 30
    ERROR = 40
    CRITICAL = 50


class Place(enum.StrEnum):
    """What a line is within the log, which is what a rule asks for with ``at``."""

    EXCEPTION = "exception"  # the message of an exception that a traceback ends with
    ERROR = "error"  # a record of level ERROR or CRITICAL
    WARNING = "warning"
    INFO = "info"
    RAW = "raw"  # no level: argparse, C++ aborts, the kernel
    FRAME = "frame"  # a line inside a traceback


class Rank(enum.StrEnum):
    """How much a rule's hit says, from most to least."""

    OVERRIDE = "override"  # stands above whatever the log says: cancelled, a sick device
    CAUSE = "cause"  # why the engine ended
    DEATH = "death"  # that a process ended, and where, without why
    ECHO = "echo"  # that another process noticed
    DEFECT = "defect"  # the engine lives, and what it computes or runs is not what was asked
    STATE = "state"  # how an engine stands that nothing is wrong with
    NOTE = "note"  # worth keeping beside the verdict; decides nothing

    @property
    def order(self) -> int:
        """The rank's place; lower decides first."""
        return list(Rank).index(self)

    @property
    def fatal(self) -> bool:
        """Whether a hit of this rank says that a process ended."""
        return self in (Rank.CAUSE, Rank.DEATH, Rank.ECHO)
