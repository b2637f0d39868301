"""The daemon's state for Prometheus."""

from __future__ import annotations

from typing import Protocol

from prometheus_client import CollectorRegistry, Gauge, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from tuner import __version__
from tuner.daemon.service import Service
from tuner.store.overview import overview

MEDIA = CONTENT_TYPE_LATEST


class GaugeMaker(Protocol):
    """Makes a gauge of the answer in hand."""

    def __call__(self, name: str, about: str, *labels: str) -> Gauge:
        """A gauge by name, with what it means and its labels."""


def render(here: Service) -> bytes:
    """All figures in Prometheus' text form."""
    registry = CollectorRegistry()

    def gauge(name: str, about: str, *labels: str) -> Gauge:
        return Gauge(f"tuner_{name}", about, labels, registry=registry)

    gauge("build_info", "Always 1; the version is its label.", "version").labels(__version__).set(1)
    gauge("start_time_seconds", "When the daemon started, since 1970.").set(here.started)
    gauge("state_bytes", "Size of the state folder, as last counted.").set(here.size)
    _studies(here, gauge)
    _devices(here, gauge)
    return generate_latest(registry)


def _studies(here: Service, gauge: GaugeMaker) -> None:
    working = here.supervisor.working() if here.supervisor else {}
    status = gauge("study_status", "1 for the status that a study is in.", "study", "status")
    running = gauge("study_running", "Whether a worker works on a study.", "study")
    trials = gauge("study_trials", "Trials that are over, by verdict.", "study", "verdict")
    best = gauge("study_best_score", "Score of the best feasible trial.", "study")
    with here.books.read() as ledger:
        gauge("quarantined_devices", "Devices in quarantine.").set(len(ledger.quarantined()))
        for row in ledger.studies():
            found = overview(ledger, row.id)
            status.labels(row.name, row.status).set(1)
            running.labels(row.name).set(row.id in working)
            for verdict, count in found.verdicts.items():
                trials.labels(row.name, verdict).set(count)
            if found.best is not None:
                best.labels(row.name).set(found.best[1])


def _devices(here: Service, gauge: GaugeMaker) -> None:
    sample = here.machine.sample()
    available = sample["host"]["memory_available"]
    if available is not None:
        gauge("host_memory_available_bytes", "Host memory that can be had.").set(available)
    used = gauge("device_memory_used_bytes", "Device memory that is not free.", "device")
    busy = gauge("device_utilization_ratio", "Time with a kernel running, 0 to 1.", "device")
    for device in sample["devices"]:
        if device["memory_used"] is not None:
            used.labels(device["key"]).set(device["memory_used"])
        if device["utilization"] is not None:
            busy.labels(device["key"]).set(device["utilization"] / 100)
