from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Self

import pytest

from tests.contract.launchers import PROCESS, wait
from tuner.errors import PortTaken
from tuner.launch import ports
from tuner.launch.identity import Identity
from tuner.launch.readiness import Ended

_THIEF = """
import socket, sys
from http.server import BaseHTTPRequestHandler, HTTPServer
class Answers(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.send_header("Content-Length", "2"); self.end_headers()
        self.wfile.write(b"{}")
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.do_GET()
    def log_message(self, *_): pass
class Server(HTTPServer):
    allow_reuse_port = True
server = Server(("127.0.0.1", int(sys.argv[1])), Answers)
print(server.server_address[1], flush=True)
server.serve_forever()
"""


class Thief:
    """Another server that answers everything with 200, on a port of its choice."""

    def __init__(self, port: int) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", _THIEF, str(port)], stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()


def test_free_ports_are_free_and_taken_ones_are_said() -> None:
    port = ports.free_port()
    assert ports.is_free(port)
    with socket.socket() as taken:
        taken.bind((ports.HOST, 0))
        taken.listen()
        number = int(taken.getsockname()[1])
        assert not ports.is_free(number)
        with pytest.raises(PortTaken, match=f"port {number} on 127.0.0.1 is taken"):
            ports.require_free(number)
    assert ports.require_free(number) == number


def test_whoever_listens_is_known_by_its_process() -> None:
    with socket.socket() as mine:
        mine.bind((ports.HOST, 0))
        mine.listen()
        port = int(mine.getsockname()[1])
        assert [each.uid for each in ports.listeners(port)] == [os.getuid()]
        assert ports.strangers(port, [os.getpid()]) == ()
        assert f"pid {os.getpid()} (" in ports.strangers(port, [])[0]
        assert ports.still_held(port, [os.getpid()])
        assert not ports.still_held(port)  # held, and surely not by an engine
    assert ports.listeners(port) == ()
    assert not ports.still_held(port, [os.getpid()])


def test_a_listener_on_every_address_counts_too() -> None:
    with socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True) as wide:
        port = int(wide.getsockname()[1])
        assert len(ports.listeners(port)) == 1
        assert ports.strangers(port, [])


@pytest.mark.xdist_group("engines")
def test_a_port_that_is_stolen_between_choice_and_start_ends_the_start(tmp_path: Path) -> None:
    launcher = PROCESS.make()
    wanted = PROCESS.plan(tmp_path)
    intent = launcher.prepare(wanted)
    with Thief(Identity.from_json(intent).port or 0):
        launch = launcher.start(wanted, intent)
        waited = wait(launch)
        proof = launch.stop(at_once=True)
    assert waited.ended in {
        Ended.EXITED,
        Ended.PORT,
    }  # never ready: the thief's answers are not its
    assert proof.gone, proof.problems  # the thief's open port is no residue


@pytest.mark.xdist_group("engines")
def test_another_server_that_shares_the_port_is_noticed(tmp_path: Path) -> None:
    """Servers that ask for it can listen on one port together; the kernel then mixes them."""
    launcher = PROCESS.make()
    wanted = PROCESS.plan(tmp_path, "reuse-port")
    intent = launcher.prepare(wanted)
    with Thief(Identity.from_json(intent).port or 0) as thief:
        launch = launcher.start(wanted, intent)
        waited = wait(launch)
        proof = launch.stop(at_once=False)
    assert waited.ended is Ended.PORT
    assert f"pid {thief.process.pid} (" in (waited.holder or "")
    assert proof.gone, proof.problems
