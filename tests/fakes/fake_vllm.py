"""A small server that looks like vLLM from outside, with a switch for every misbehaviour.

It takes vLLM's flags, prints vLLM's lines, starts an engine core and a worker as vLLM does, and
answers ``/health``, ``/v1/completions`` and ``/v1/chat/completions`` (streamed, with usage). The
environment variable ``FAKE`` holds the misbehaviours, separated by commas. Speeds follow a model
of their own: what matters is that flags change them and that memory runs out where it must.
"""

from __future__ import annotations

import argparse
import ctypes
import errno
import hashlib
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing import resource_tracker, shared_memory
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.fakes import fake_answers, fake_counts, fake_leaks
else:
    import fake_answers  # stands beside this file, which runs as a script
    import fake_counts
    import fake_leaks

SWITCHES = set(filter(None, os.environ.get("FAKE", "").split(",")))
MEMORY_GIB = float(os.environ.get("FAKE_MEMORY_GIB", "8"))
WEIGHTS_GIB = float(os.environ.get("FAKE_WEIGHTS_GIB", "0"))
STEP_GIB = float(os.environ.get("FAKE_STEP_GIB", "0"))
"""Memory of a step's activations, for each 1024 of the tokens that a step may have."""
SEQUENCE_GIB = float(os.environ.get("FAKE_SEQUENCE_GIB", "0.025"))
"""Memory of the states of each sequence that may run at once."""
SPEED = float(os.environ.get("FAKE_SPEED", "1"))
AFTER = int(os.environ.get("FAKE_AFTER", "6"))  # requests after which the late misbehaviours begin
EXTRA = int(os.environ.get("FAKE_EXTRA", "0"))  # tokens that it claims and does not make
LINGER_S = float(
    os.environ.get("FAKE_LINGER", "2")
)  # seconds that requests then linger without a token
FORK = bool(os.environ.get("FAKE_FORK"))
"""Whether the core and the worker are forks: the same processes, without the time that programs take."""


def say(
    text: str, *, who: str = "APIServer", level: str = "INFO", source: str = "fake.py:1"
) -> None:
    stamp = time.strftime("%m-%d %H:%M:%S")
    print(f"({who} pid={os.getpid()}) {level} {stamp} [{source}] {text}", flush=True)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="api_server.py")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--model", default="/model")
    parser.add_argument("--served-model-name", default="llm")
    parser.add_argument("--max-model-len", type=int, default=4096)
    parser.add_argument("--max-num-seqs", type=int, default=4)
    parser.add_argument("--max-num-batched-tokens", type=int, default=2048)
    for switch in ("enable-prefix-caching", "enable-chunked-prefill", "enforce-eager"):
        parser.add_argument(f"--{switch}", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--enable-prompt-tokens-details", action="store_true")
    parser.add_argument("--enable-logging-iteration-details", action="store_true")
    return parser.parse_args()


# --- processes -----------------------------------------------------------------------------------


class Fork:
    """A fork that lives as a core or a worker, with as much of a ``Popen`` as is needed."""

    def __init__(self, role: str) -> None:
        self.pid = os.fork()
        if self.pid == 0:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            be_child(role)
            os._exit(0)

    def terminate(self) -> None:
        os.kill(self.pid, signal.SIGTERM)

    def wait(self, timeout: float) -> int:
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            done, status = os.waitpid(self.pid, os.WNOHANG)
            if done:
                return status
            time.sleep(0.005)
        raise TimeoutError


def child(role: str) -> subprocess.Popen[bytes] | Fork:
    if FORK:
        return Fork(role)
    argv = [sys.executable, __file__, "--role", role, str(os.getpid())]
    return subprocess.Popen(argv, pass_fds=[int(os.environ["FAKE_UP"])])


def start_processes() -> subprocess.Popen[bytes] | Fork:
    """Start the core, which starts the worker, and wait until the worker is what it is to be."""
    told, tell = os.pipe()
    os.environ["FAKE_UP"] = str(tell)
    core = child("EngineCore")
    os.close(tell)
    select.select([told], [], [], 30)
    os.close(told)
    return core


def worker_is_up() -> None:
    tell = int(os.environ["FAKE_UP"])
    os.write(tell, b"1")
    os.close(tell)


def be_child(role: str) -> None:
    """Live as an engine core or a worker until the end, holding what the switches say."""
    if "daemonize" in SWITCHES and role == "Worker":
        become_daemon()
    if "setsid" in SWITCHES and role == "Worker":
        os.setsid()
    if "retitle" in SWITCHES:
        if "wipe" in SWITCHES:
            os.environ.pop("SPT_NOENV", None)
        import setproctitle  # the import alone already moves the environment about

        setproctitle.setproctitle(f"VLLM::{role}")
    if "ignore-term" in SWITCHES:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if role == "EngineCore":
        be_core()
    else:
        be_worker()


def become_daemon() -> None:
    """Lose parent, session, folder, log and environment, as a daemon of the old school does."""
    if os.fork():
        os._exit(0)
    os.setsid()
    os.chdir("/")
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    worker_is_up()
    argv = [sys.executable, "-c", "import time; time.sleep(3600)"]
    os.execve(sys.executable, argv, {})  # noqa: S606 - no shell is the point


def keep_forking() -> None:
    """Have children for ever, each of which lives a moment."""
    while True:
        if os.fork() == 0:
            time.sleep(0.02)
            os._exit(0)
        time.sleep(0.002)
        try:
            os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            continue


def end_first_thread() -> None:
    """End the first thread of this process and no other: it looks like a zombie and is none."""
    threading.Thread(target=time.sleep, args=(3600,)).start()
    ctypes.CDLL(None).syscall(60, 0)


def wait_for(stop: threading.Event) -> None:
    """Wait in slices: a signal that another thread took is handled when the first one wakes up."""
    while not stop.wait(0.02):
        pass


def be_core() -> None:
    worker = child("Worker")
    os.close(int(os.environ["FAKE_UP"]))
    say("core up", who="EngineCore")
    stop = threading.Event()
    if "ignore-term" not in SWITCHES:
        signal.signal(signal.SIGTERM, lambda *_: stop.set())
    wait_for(stop)
    worker.terminate()
    worker.wait(5)


def leak() -> None:
    if "leak-shm" in SWITCHES:
        block = shared_memory.SharedMemory(create=True, size=4096)
        resource_tracker.unregister(block._name, "shared_memory")  # type: ignore[attr-defined]
    if "leak-library-shm" in SWITCHES:
        fake_leaks.leak_as_libraries_do()


def be_worker() -> None:
    leak()
    ballast = bytearray(int(float(os.environ.get("FAKE_BALLAST_MIB", "0")) * 2**20))
    for place in range(0, len(ballast), 4096):
        ballast[place] = 1
    worker_is_up()
    if "stopped-worker" in SWITCHES:
        os.kill(os.getpid(), signal.SIGSTOP)
    if "forking-worker" in SWITCHES:
        keep_forking()
    if "threadless-worker" in SWITCHES:
        end_first_thread()
    if "zombie-children" in SWITCHES:
        for _ in range(3):
            if os.fork() == 0:
                os._exit(0)
    while True:
        time.sleep(3600)


# --- what goes wrong at the start ----------------------------------------------------------------


def tell_memory(args: argparse.Namespace) -> None:
    """Say what this engine would hold of its machine's memory, for tests whose telemetry reads it there."""
    asked = float(os.environ.get("VLLM_CPU_KVCACHE_SPACE", "1"))
    held = MEMORY_GIB - memory_left(args) + asked
    Path("fake_memory").write_text(str(int(held * 2**30)))


def memory_left(args: argparse.Namespace) -> float:
    """GiB that weights, a step's activations and the sequences' states leave for the KV cache."""
    step: float = STEP_GIB * args.max_num_batched_tokens / 1024
    states: float = SEQUENCE_GIB * args.max_num_seqs
    return MEMORY_GIB - WEIGHTS_GIB - step - states


def refuse(args: argparse.Namespace) -> None:
    if not args.enable_chunked_prefill and args.max_num_batched_tokens < args.max_model_len:
        fail_config(
            f"max_num_batched_tokens ({args.max_num_batched_tokens}) is smaller than max_model_len "
            f"({args.max_model_len}). This effectively limits the maximum sequence length to "
            "max_num_batched_tokens and makes vLLM reject longer sequences. Please increase "
            "max_num_batched_tokens or decrease max_model_len."
        )
    if args.max_num_batched_tokens < args.max_num_seqs:
        fail_config(
            f"max_num_batched_tokens ({args.max_num_batched_tokens}) must be greater than or equal "
            f"to max_num_seqs ({args.max_num_seqs})."
        )
    asked, available = float(os.environ.get("VLLM_CPU_KVCACHE_SPACE", "1")), memory_left(args)
    if asked > available:
        time.sleep(0.2 / SPEED)
        for line in (
            "WorkerProc hit an exception.",
            "Traceback (most recent call last):",
            (
                f"ValueError: Available memory on node 0 ({available:.2f}/{MEMORY_GIB:.2f} GiB) on kv cache "
                f"allocation is less than requested memory for kv ({asked:.1f} GiB). Decrease "
                "--kv-cache-memory-bytes, VLLM_CPU_KVCACHE_SPACE, or reduce CPU memory used by other processes."
            ),
        ):
            say(line, who="Worker", level="ERROR", source="multiproc_executor.py:890")
        print(
            "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"
        )
        sys.exit(1)


def fail_config(text: str) -> None:
    print("Traceback (most recent call last):")
    print('  File "/x/vllm/engine/arg_utils.py", line 1, in create_engine_config')
    print("pydantic_core._pydantic_core.ValidationError: 1 validation error for SchedulerConfig")
    print(
        f"  Value error, {text} [type=value_error, input_value=ArgsKwargs((), {{}}), input_type=ArgsKwargs]"
    )
    sys.exit(1)


def blab() -> None:
    """Tell the log a secret that was given, or die of it."""
    secret = os.environ.get("FAKE_SECRET", "")
    if "blab" in SWITCHES:
        say(f"using token {secret}, that is {json.dumps(secret)}")
    if "blab-oom" in SWITCHES:
        say(
            f"torch.OutOfMemoryError: CUDA out of memory for {secret}. Tried to allocate 2.00 GiB. "
            "GPU 0 has a total capacity of 31.72 GiB of which 1.20 GiB is free.",
            who="Worker",
            level="ERROR",
        )
        sys.exit(1)


def meant(variable: str) -> bool:
    """Whether this attempt of this trial is among those that a variable names."""
    return "/".join(Path.cwd().parts[-2:]) in os.environ.get(variable, "").split(",")


def misbehave_in_this_attempt() -> None:
    if meant("FAKE_PORT_BUSY"):
        raise OSError(errno.EADDRINUSE, "Address already in use")
    if meant("FAKE_DISK_FULL"):
        raise OSError(errno.ENOSPC, "No space left on device")
    if meant("FAKE_CRASH"):
        os.kill(os.getpid(), signal.SIGSEGV)


def load_slowly() -> None:
    if "slow-start" in SWITCHES:
        for number in range(80):
            say(f"Loading checkpoint shards: {number}/80", who="Worker")
            time.sleep(0.1)


def misbehave_at_start() -> None:
    blab()
    misbehave_in_this_attempt()
    load_slowly()
    if "oom" in SWITCHES:
        say(
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity "
            "of 31.72 GiB of which 1.20 GiB is free.",
            who="Worker",
            level="ERROR",
        )
        sys.exit(1)
    if "segfault" in SWITCHES:
        os.kill(os.getpid(), signal.SIGSEGV)
    if "exit0" in SWITCHES:
        sys.exit(0)
    if "spin-start" in SWITCHES:
        while True:
            pass
    if "hang-start" in SWITCHES:
        while True:
            time.sleep(3600)


# --- serving -------------------------------------------------------------------------------------


class Engine:
    """Tokens are bytes; a request waits for a seat, then for its prompt, then for each token."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.seats = threading.Semaphore(args.max_num_seqs)
        self.seen: set[bytes] = set()
        self.lock = threading.Lock()
        self.served = 0
        self.words = fake_answers.Words(SWITCHES, AFTER)
        self.counts = fake_counts.Counts(args.max_num_batched_tokens)
        impl = os.environ.get("ENGINEX_MOE_TINY_IMPL", "native")
        slow = {"native": 1.0, "tokenwise": 1.1, "bmm": 1.2, "loop": 1.8, "wrong": 0.3}.get(
            impl, 1.0
        )
        self.token_s = 0.004 * slow / SPEED
        self.prefill_s = (2e-5 + 2e-6 * 2048 / args.max_num_batched_tokens) / SPEED

    def cached(self, prompt: bytes) -> int:
        """Cached prompt tokens, in blocks of 64, and remembers this prompt's blocks."""
        if not self.args.enable_prefix_caching or "forgets" in SWITCHES:
            return 0
        hits = 0
        with self.lock:
            for end in range(64, len(prompt), 64):
                key = hashlib.blake2b(prompt[:end], digest_size=8).digest()
                hits = end if key in self.seen else hits
                self.seen.add(key)
        return hits


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # head and body are written apart
    engine: Engine

    def log_message(self, *_: Any) -> None:
        pass

    def answer(self, status: int, body: dict[str, Any] | str) -> None:
        raw = (body if isinstance(body, str) else json.dumps(body)).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def do_GET(self) -> None:
        if self.path == "/metrics":
            on = self.engine.args.enable_prefix_caching and "no-cache" not in SWITCHES
            self.answer(
                200,
                f'vllm:cache_config_info{{enable_prefix_caching="{on}",num_gpu_blocks="100"}} 1.0\n'
                + self.engine.counts.metrics(),
            )
        elif self.path == "/v1/models":
            longest = self.engine.args.max_model_len
            self.answer(200, {"data": [{"id": "llm", "max_model_len": longest}]})
        else:
            self.answer(200, {})

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers["Content-Length"]))
        try:
            body = json.loads(raw)
        except ValueError:
            self.refuse("1 validation error: {'type': 'json_invalid', 'loc': ('body', 1)}")
            return
        if self.path == "/tokenize":
            self.answer(200, {"count": len(fake_answers.prompt_of({"prompt": "", **body}))})
            return
        if "dead-healthy" in SWITCHES:
            self.answer(500, {"error": {"message": "EngineCore encountered an issue."}})
            return
        if "never-answer" in SWITCHES:
            time.sleep(3600)
        why = fake_answers.refusal(body, self.engine.args.max_model_len, SWITCHES)
        if why is not None:
            self.refuse(why)
            return
        try:
            self.generate(body)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True  # the client went away, as clients do

    def refuse(self, why: str) -> None:
        self.answer(500 if "accepts-bad" in SWITCHES else 400, {"error": {"message": why}})

    def generate(self, body: dict[str, Any]) -> None:
        engine = self.engine
        prompt = fake_answers.prompt_of(body)
        left = engine.args.max_model_len - len(prompt)
        count = fake_answers.counted(body, left, SWITCHES)
        if body.get("n", 1) > 1 and "n2-kills" in SWITCHES:
            os.kill(os.getpid(), signal.SIGKILL)
        if body.get("response_format") and "no-json" in SWITCHES:
            self.answer(500, {"error": {"message": "the grammar backend is not there"}})
            return
        with engine.seats:
            engine.served += 1
            if "die-in-load" in SWITCHES and engine.served > AFTER:
                os.kill(os.getpid(), signal.SIGKILL)
            if engine.served > AFTER:
                self.linger()
            if "nan-in-log" in SWITCHES and engine.served == AFTER:
                say(
                    "NaN in prefill GatedDeltaNet layer 0 (frac=0.9998), replacing with zeros",
                    level="WARNING",
                )
            cached = engine.cached(prompt)
            time.sleep((len(prompt) - cached) * engine.prefill_s)
            choices = [
                fake_answers.cut(
                    engine.words.tokens(prompt, count, body, n, engine.served),
                    body,
                    count,
                    SWITCHES,
                )
                for n in range(1 if "one-choice" in SWITCHES else body.get("n", 1))
            ]
            made = sum(len(tokens) for tokens, _ in choices)
            if (line := engine.counts.add(len(prompt), cached, made)) is not None:
                say(line, who="Worker")
            told = () if "no-profile" in SWITCHES else (len(prompt), cached, made)
            for line in engine.counts.profile(*told) if told else ():
                say(line, who="Worker")
            usage: dict[str, Any] = {
                "prompt_tokens": len(prompt),
                "completion_tokens": made + EXTRA,
                "total_tokens": len(prompt) + made + EXTRA,
            }
            if "cached-unsaid" not in SWITCHES:
                usage["prompt_tokens_details"] = {"cached_tokens": cached}
            if body.get("stream"):
                self.stream(*choices[0], usage, chat="messages" in body)
                return
            time.sleep(made * engine.token_s)
        self.whole(body, prompt, choices, usage)

    def linger(self) -> None:
        """Give no token: for ever, while a long prompt is computed, or while the request is queued."""
        counts = self.engine.counts
        if "hang-in-load" in SWITCHES:
            counts.running += 1
            time.sleep(3600)
        if "long-prefill" in SWITCHES:
            counts.running += 1
            for _ in range(int(20 * LINGER_S)):
                counts.blocks += 0.001
                time.sleep(0.05)
            counts.running -= 1
        if "queued" in SWITCHES:
            counts.waiting += 1
            time.sleep(LINGER_S)
            counts.waiting -= 1

    def whole(
        self,
        body: dict[str, Any],
        prompt: bytes,
        choices: list[tuple[list[str], str]],
        usage: dict[str, Any],
    ) -> None:
        found = []
        for index, (tokens, finish) in enumerate(choices):
            text = "".join(tokens)
            said: dict[str, Any] = (
                {"message": fake_answers.message_of(body, text)}
                if "messages" in body
                else {"text": text}
            )
            if body.get("logprobs"):
                said["logprobs"] = self.engine.words.logprobs(prompt, tokens)
            found.append({"index": index, "finish_reason": finish, **said})
        counts = {} if "no-usage" in SWITCHES else {"usage": usage}
        self.answer(200, {"choices": found, **counts})

    def stream(self, tokens: list[str], finish: str, usage: dict[str, Any], *, chat: bool) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for number, token in enumerate(tokens):
            time.sleep(self.engine.token_s)
            text = {"delta": {"content": token}} if chat else {"text": token}
            last = finish if number == len(tokens) - 1 else None
            self.event({"choices": [{"index": 0, "finish_reason": last, **text}]})
        self.event({"choices": [], "usage": usage})
        self.chunk(b"data: [DONE]\n\n")
        self.chunk(b"")

    def event(self, data: dict[str, Any]) -> None:
        self.chunk(b"data: " + json.dumps(data).encode() + b"\n\n")

    def chunk(self, raw: bytes) -> None:
        self.wfile.write(f"{len(raw):x}\r\n".encode() + raw + b"\r\n")
        self.wfile.flush()


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


def main() -> None:
    if sys.argv[1:2] == ["--role"]:
        be_child(sys.argv[2])
        return
    args = parse()
    say(f"non-default args: {vars(args)}", source="api_utils.py:286")
    misbehave_at_start()
    refuse(args)
    if WEIGHTS_GIB:
        tell_memory(args)
    core = start_processes()
    stop = threading.Event()
    if "ignore-term" in SWITCHES:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    else:
        signal.signal(signal.SIGTERM, lambda *_: stop.set())
    time.sleep(0.1 / SPEED)
    impl = os.environ.get("ENGINEX_MOE_TINY_IMPL")
    if impl:
        say(
            f"[enginex] moe variant={impl} max_tokens=4 effective={impl} layers=1 dtype=bf16 pid=1",
            who="Worker",
        )
    space = float(os.environ.get("VLLM_CPU_KVCACHE_SPACE", "1"))
    say(
        f"CPU KV cache size: {int(space * fake_counts.KV_TOKENS_PER_GIB):,} tokens",
        who="EngineCore",
    )
    Handler.engine = Engine(args)
    Server.allow_reuse_port = "reuse-port" in SWITCHES
    server = Server((args.host, args.port), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    say("Application startup complete.")
    if "stopped-leader" in SWITCHES:
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGSTOP)).start()
    if "leader-dies" in SWITCHES:
        time.sleep(float(os.environ.get("FAKE_DELAY", "0.5")))
        os.kill(os.getpid(), signal.SIGKILL)
    wait_for(stop)
    say("[shutdown] API server: shutdown triggered", source="launcher.py:254")
    core.terminate()
    core.wait(10)


if __name__ == "__main__":
    main()
