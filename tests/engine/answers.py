"""Greedy answers of the engine under several settings, in one program of the engine's own interpreter.

Importing vLLM takes ten times as long as loading the tiny model. So it is imported once, and each job is a fork that
loads the engine into its own process, as a server with a single process does, with the job's variables.

Standard input is JSON: ``prompts`` by name, ``tokens`` of each answer, and ``jobs`` by name, each with ``model``,
``env`` and the files ``log`` and ``out``. A job's ``out`` is JSON: the answers by ``alone/NAME`` and ``crowd/NAME``.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any

from vllm import LLM, SamplingParams

_TOP = 8
_LATE = (
    "vllm.v1.engine.llm_engine",
    "vllm.v1.engine.core",
    "vllm.v1.executor.uniproc_executor",
    "vllm.v1.worker.cpu_worker",
    "vllm.model_executor.model_loader.default_loader",
    "vllm.model_executor.layers.fused_moe.experts.cpu_moe",
    "vllm.model_executor.models.qwen3_next",
    "vllm.model_executor.models.qwen3_moe",
)
"""What vLLM imports when it loads a model: each job would else import it anew."""


def answers(llm: LLM, prompts: dict[str, str], tokens: int) -> dict[str, Any]:
    """Each prompt by itself, and then all at once."""
    asked = SamplingParams(temperature=0.0, max_tokens=tokens, logprobs=_TOP, seed=0)
    chats = {name: [{"role": "user", "content": text}] for name, text in prompts.items()}
    found = {}
    for name, chat in chats.items():
        (found[f"alone/{name}"],) = llm.chat([chat], asked, use_tqdm=False)
    crowd = llm.chat(list(chats.values()), asked, use_tqdm=False)
    found |= {f"crowd/{name}": one for name, one in zip(chats, crowd, strict=True)}
    return {name: spoken(one.outputs[0]) for name, one in found.items()}


def spoken(output: Any) -> dict[str, Any]:
    """An answer with the log-probability of each token, and of the likeliest ones in its place."""
    places = list(zip(output.token_ids, output.logprobs, strict=True))
    return {
        "text": output.text,
        "tokens": [place[token].decoded_token for token, place in places],
        "logprobs": [place[token].logprob for token, place in places],
        "likely": [{p.decoded_token: p.logprob for p in place.values()} for _, place in places],
    }


def work(job: dict[str, Any], prompts: dict[str, str], tokens: int) -> None:
    """Load the engine and write down what it answers."""
    log = os.open(job["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.environ.update(job["env"])
    llm = LLM(
        model=job["model"],
        max_model_len=8192,
        max_num_seqs=4,
        max_num_batched_tokens=2048,
        enforce_eager=True,
        distributed_executor_backend="uni",
    )
    Path(job["out"]).write_text(json.dumps(answers(llm, prompts, tokens)), encoding="utf-8")


def main() -> None:
    """Do the jobs one after the other; the status is 1 where one of them failed."""
    given = json.load(sys.stdin)
    for name in _LATE:
        importlib.import_module(name)
    failed = []
    for name, job in given["jobs"].items():
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                work(job, given["prompts"], given["tokens"])
                status = 0
            except BaseException:  # noqa: BLE001 - a fork must not go on as its parent
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(status)
        _, status = os.waitpid(pid, 0)
        if os.waitstatus_to_exitcode(status) != 0:
            failed.append(name)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
