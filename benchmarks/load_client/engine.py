r"""Whether the load client and ``vllm bench serve`` measure the same on a real engine.

Each round sends one and the same kind of load three times: with our client (A), with
``vllm bench serve`` (B), and with our client again (A'). A and B get prompts of one length and one
number of answers, fresh for each run so that no run meets another's cache. B / A says how the two
clients agree, A' / A how much the engine differs from itself; the order turns from round to round.

    python benchmarks/load_client/engine.py http://127.0.0.1:8000 --vllm-python ENGINE/bin/python \
        --tokenizer MODEL_FOLDER
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from tuner.load.endpoint import Endpoint
from tuner.load.plan import Plan
from tuner.load.run import run_load, session_salt
from tuner.load.tokens import served_tokens
from tuner.load.workloads.decode_curve import DecodeCurve, decode_curve, warm_up

_VLLM = """
import argparse
from vllm.benchmarks.serve import add_cli_args, main
parser = argparse.ArgumentParser()
add_cli_args(parser)
main(parser.parse_args())
"""
Figures = dict[str, float]


def ours(plan: Plan, endpoint: Endpoint, salt: str) -> Figures:
    """The figures of one run, by our client's records."""
    result = run_load(plan, endpoint, salt=salt)
    records = result.records
    assert all(record.ok for record in records), records[0].detail
    ttft = [(r.first_token or 0.0) - (r.sent or 0.0) for r in records]
    itl = np.concatenate([np.diff(r.chunk_times) for r in records])
    output = sum(r.output_tokens or 0 for r in records)
    return {
        "TTFT mean, ms": statistics.fmean(ttft) * 1e3,
        "TTFT median, ms": statistics.median(ttft) * 1e3,
        "ITL mean, ms": float(itl.mean()) * 1e3,
        "ITL median, ms": float(np.median(itl)) * 1e3,
        "output tokens/s": output / result.wall_s,
    }


def vllm_bench(plan: Plan, endpoint: Endpoint, salt: str, args: argparse.Namespace) -> Figures:
    """The figures of one run, by ``vllm bench serve``, with the prompts that we would send."""
    with TemporaryDirectory() as folder:
        prompts = Path(folder) / "prompts.jsonl"
        lines = [
            json.dumps({"prompt": session_salt(plan, salt, n) + s.turns[0].messages[0].content})
            for n, s in enumerate(plan.sessions)
        ]
        prompts.write_text("\n".join(lines) + "\n")
        command = [
            *(str(args.vllm_python), "-c", _VLLM, "--backend", "openai-chat"),
            *("--endpoint", "/v1/chat/completions", "--base-url", endpoint.url),
            *("--model", endpoint.model, "--tokenizer", str(args.tokenizer)),
            *("--dataset-name", "custom", "--dataset-path", str(prompts), "--disable-shuffle"),
            *("--custom-output-len", str(args.output), "--skip-chat-template"),
            *("--num-prompts", str(plan.requests), "--max-concurrency", str(args.concurrency)),
            *("--ignore-eos", "--temperature", "0", "--disable-tqdm", "--num-warmups", "0"),
            *("--ready-check-timeout-sec", "0", "--save-result", "--result-dir", folder),
            *("--result-filename", "result.json"),
        ]
        environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
        done = subprocess.run(
            command, env=environment, cwd=folder, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise SystemExit(done.stdout[-2000:] + done.stderr[-2000:])
        found = json.loads((Path(folder) / "result.json").read_text())
    assert found["completed"] == plan.requests
    return {
        "TTFT mean, ms": found["mean_ttft_ms"],
        "TTFT median, ms": found["median_ttft_ms"],
        "ITL mean, ms": found["mean_itl_ms"],
        "ITL median, ms": found["median_itl_ms"],
        "output tokens/s": found["output_throughput"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("url")
    parser.add_argument("--model", default="llm")
    parser.add_argument("--vllm-python", type=Path, required=True)
    parser.add_argument("--tokenizer", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--concurrency", type=int, default=4)
    parser.add_argument("--requests", type=int, default=32)
    parser.add_argument("--prompt", type=int, default=400)
    parser.add_argument("--output", type=int, default=64)
    args = parser.parse_args()
    endpoint = Endpoint.parse(args.url, model=args.model)
    shape = DecodeCurve(
        concurrencies=(args.concurrency,),
        rounds=args.requests // args.concurrency,
        prompt_tokens=args.prompt,
        output_tokens=args.output,
    )
    tokens = served_tokens(endpoint, args.tokenizer)
    (plan,) = decode_curve(shape, seed=1, tokens=tokens)
    run_load(warm_up(shape, seed=1, tokens=tokens, requests=8), endpoint, salt=str(os.getpid()))
    runs: dict[str, list[Figures]] = {"A": [], "B": [], "A'": []}
    for turn in range(args.rounds):
        order = ["A", "B", "A'"] if turn % 2 == 0 else ["A'", "B", "A"]
        for kind in order:
            salt = f"{os.getpid()}/{turn}/{kind}"
            one = vllm_bench(plan, endpoint, salt, args) if kind == "B" else None
            runs[kind].append(one or ours(plan, endpoint, salt))
            print(f"round {turn + 1} {kind}: {runs[kind][-1]}", file=sys.stderr)
    print(f"{args.rounds} rounds of {plan.requests} requests, {args.prompt} prompt tokens and "
          f"{args.output} answer tokens, {args.concurrency} at a time")  # fmt: skip
    print(
        "\n| | ours (A) | vllm bench serve (B) | B / A, median (range) | A' / A, median (range) |"
    )
    print("|---|---:|---:|---:|---:|")
    for name in runs["A"][0]:
        a, b, c = ([one[name] for one in runs[kind]] for kind in ("A", "B", "A'"))
        agree = spread([x / y for x, y in zip(b, a, strict=True)])
        noise = spread([x / y for x, y in zip(c, a, strict=True)])
        middle = (statistics.median(a), statistics.median(b))
        print(f"| {name} | {middle[0]:.2f} | {middle[1]:.2f} | {agree} | {noise} |")


def spread(values: list[float]) -> str:
    return f"{statistics.median(values):.3f} ({min(values):.3f}-{max(values):.3f})"


if __name__ == "__main__":
    main()
