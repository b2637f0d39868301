// What the page calls things. The families are those of tuner/verdict/families.py; a test holds them together.

/** Families of trials' ends: name, and the shape that tells them apart without colours. */
export const FAMILIES = {
  good: { label: "passed", mark: "●" },
  missed: { label: "missed a gate", mark: "▲" },
  memory: { label: "out of memory", mark: "■" },
  refused: { label: "refused", mark: "◆" },
  crashed: { label: "crash or hang", mark: "✖" },
  wrong: { label: "wrong answers or configuration", mark: "★" },
  worse: { label: "ended early: worse than others", mark: "▽" },
  outside: { label: "not its doing", mark: "○" },
  open: { label: "not over", mark: "…" },
};

/** Stages of a trial in order, and what is done on the way to each. */
export const STAGES = {
  planned: "planned",
  starting: "planned",
  ready: "start",
  probed: "probe",
  warmed: "warm-up",
  measured: "measurement",
  stopping: "stop",
  verified: "proof that nothing is left",
  told: "told",
};

/** Statuses of a study that is not over. */
export const OPEN = new Set(["queued", "running", "paused"]);

/** What the score is where nothing else is declared, as the daemon says it. */
export const USUAL = "weighted score";

/** Figures that are shown first: name, unit, which way is better. */
export const FIGURES = [
  ["weighted", "weighted score", "", "higher"],
  ["goodput_rps", "goodput", "req/s", "higher"],
  ["output_tps", "output TPS, aggregate", "tok/s", "higher"],
  ["uncached_input_tps", "uncached input TPS", "tok/s", "higher"],
  ["cached_tps", "cached TPS", "tok/s", "higher"],
  ["output_tps_p10", "output TPS P10 of a request, TTFT included", "tok/s", "higher"],
  ["decode_tps_p50", "decode TPS P50 of a request, TTFT left out", "tok/s", "higher"],
  ["ttft_p50_s", "TTFT P50", "s", "lower"],
  ["ttft_p90_s", "TTFT P90", "s", "lower"],
  ["itl_p50_s", "ITL P50", "s", "lower"],
  ["tpot_p50_s", "TPOT P50", "s", "lower"],
  ["e2e_p90_s", "E2E latency P90", "s", "lower"],
  ["cache_hit_rate", "cache hit rate", "part", "higher"],
  ["success_rate", "success rate", "part", "higher"],
  ["wall_s", "wall time", "s", "lower"],
];
