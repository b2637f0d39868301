"""Counts how a model's tokens are routed to its experts, step by step, in the engine itself.

Runs inside the engine's environment, in one process:
``VLLM_ENABLE_V1_MULTIPROCESSING=0 PYTHON routing.py MODEL < prompts.json``.
The prompts are texts; each is answered with 32 tokens. vLLM's own kernel computes what it always
does; beside it the chosen experts of every layer and step are counted.
"""

from __future__ import annotations

import argparse
import inspect
import json
import sys
from typing import Any

import torch
from vllm import LLM, SamplingParams
from vllm.model_executor.layers.fused_moe.experts.cpu_moe import CPUUnquantizedExperts


def main() -> None:
    """Print one JSON object: for each step its tokens, distinct experts and largest over mean load."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    options = parser.parse_args()
    prompts = json.load(sys.stdin)

    steps: list[dict[str, Any]] = []
    native = CPUUnquantizedExperts.apply
    names = list(inspect.signature(native).parameters)[1:]

    def counted(self: Any, *arguments: Any, **named: Any) -> Any:
        given = dict(zip(names, arguments, strict=False)) | named
        ids, experts = given["topk_ids"], int(given["global_num_experts"])
        load = torch.bincount(ids.flatten().long(), minlength=experts)
        steps.append(
            {
                "tokens": int(ids.shape[0]),
                "touched": int((load > 0).sum()),
                "max_over_mean": float(load.max() / load.float().mean()),
            }
        )
        return native(self, *arguments, **named)

    CPUUnquantizedExperts.apply = counted
    engine = LLM(
        options.model,
        max_model_len=32768,
        max_num_seqs=8,
        max_num_batched_tokens=2048,
        enforce_eager=True,
        enable_prefix_caching=True,
        distributed_executor_backend="uni",  # in this very process, where the count is kept
    )
    steps.clear()  # the engine's own profile run
    sampling = SamplingParams(temperature=0.0, max_tokens=32, ignore_eos=True)
    engine.generate(prompts, sampling)
    if not steps:
        raise SystemExit("the experts were computed elsewhere: nothing was counted")
    print("ROUTING " + json.dumps(steps))


if __name__ == "__main__":
    main()
