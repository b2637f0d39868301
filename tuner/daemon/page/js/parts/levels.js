// Cheaper levels of fidelity, and how far each agrees with the real load.

import { table } from "../dom.js";
import { number, seconds } from "../format.js";

/** One row a level, the real one last. */
export function levels(rows) {
  return table(["Level", "Leaves out", "A trial takes", "Measured", "Held there", "Pairs", "Kendall's tau", "Standing"], rows.map((row) => [
    row.level, row.leaves_out || "nothing", seconds(row.cost), row.measured, row.held ?? 0, row.pairs ?? "–", number(row.tau ?? null, 2),
    row.retired_because ?? [row.standing, row.why].filter(Boolean).join(": ") ?? "–",
  ]), [2, 3, 4, 5, 6]);
}
