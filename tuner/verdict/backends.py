"""Backends and kernels that were asked for against those that run."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tuner.verdict.evidence import Finding
from tuner.verdict.facts import LogFacts, Remark
from tuner.verdict.reading import Proof

LEFT_TO_ENGINE = frozenset({"auto", "none", "-1", ""})
"""Values that leave the choice to the engine."""
_ATTENTION_LINE = re.compile(r"(?:attention|Attention|\bbackend on V\d engine|^Using \S+ backend)")
_OTHER_ATTENTION = re.compile(
    r"MoE|vit attention|ViT|LoRA|sampl|all.?reduce|MLA prefill|Mamba|SSU|SSM|GDN"
)


def attention_findings(
    asked: Mapping[str, str | bool | None], env: Mapping[str, str], facts: LogFacts
) -> list[Finding]:
    """An attention backend that was asked for by name and is not the one in use.

    Args:
        asked: Flags by name, as :func:`tuner.verdict.compare.parse_argv` gives them.
        env: The environment that was asked for.
        facts: What the log says.
    """
    name, value = "attention_backend", asked.get("attention_backend")
    if not isinstance(value, str):
        name, value = "VLLM_ATTENTION_BACKEND", env.get("VLLM_ATTENTION_BACKEND")
    if not isinstance(value, str) or value.lower() in LEFT_TO_ENGINE:
        return []
    want = _plain(value)
    for remark in facts.remarks:
        if remark.text.startswith("Cannot use") and want in _plain(remark.text):
            proof = Proof(remark.line, remark.text)
            return [Finding(name, value, "refused", "fell_back", proof)]
    shown = [line for line in facts.backends if _about_attention(line)]
    if any(_mentions(line, want) for line in shown):
        return []
    if shown:
        proof = Proof(shown[0].line, shown[0].text)
        return [Finding(name, value, shown[0].text, "fell_back", proof)]
    if not facts.config:
        return []  # the log is a part only, or was not read: silence means nothing
    proof = Proof(None, "no line of the log names an attention backend")
    return [Finding(name, value, "no sign of it", "not_shown", proof)]


def _about_attention(line: Remark) -> bool:
    return bool(_ATTENTION_LINE.search(line.text)) and not _OTHER_ATTENTION.search(line.text)


def _mentions(line: Remark, want: str) -> bool:
    """Whether a backend line names this backend as the one in use, not as one of several to choose."""
    chosen = line.text.partition(" out of ")[0]
    return want in _plain(chosen) or _family(want) in _plain(chosen)


def _plain(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", text.lower())


def _family(plain: str) -> str:
    """``flashattn`` as the engine's own lines write it."""
    return {"flashattn": "flashattention", "torchsdpa": "torchsdpa", "tritonattn": "triton"}.get(
        plain, plain
    )


def marker_fields(text: str) -> dict[str, str]:
    """The ``key=value`` words of a marker line."""
    return dict(re.findall(r"(\S+?)=(\S+)", text))


def marker_findings(env: Mapping[str, str], facts: LogFacts) -> list[Finding]:
    """Kernel variants asked for by ``ENGINEX_…_IMPL`` against what each worker printed."""
    findings = []
    for name, value in env.items():
        found = re.fullmatch(r"ENGINEX_(?P<part>[A-Z]+)_\w*IMPL", name)
        if found is None or not value:
            continue
        topic = f"[enginex] {found['part'].lower()} "
        lines = [m for m in facts.markers if m.text.startswith(topic) and "effective=" in m.text]
        findings += [_marker(name, value, line) for line in lines if not _took(line, value)]
        if not lines and value != "native" and facts.config:
            proof = Proof(None, "no worker printed the marker of this variant")
            findings.append(Finding(name, value, "no marker", "not_shown", proof))
    return findings


def _took(line: Remark, value: str) -> bool:
    return marker_fields(line.text).get("effective") == value


def _marker(name: str, value: str, line: Remark) -> Finding:
    found = marker_fields(line.text).get("effective", "?")
    return Finding(name, value, found, "fell_back", Proof(line.line, line.text))
