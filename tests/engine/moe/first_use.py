"""A process whose very first product is the check that the switch makes when a model is loaded."""

from __future__ import annotations

from moe.cases import make
from moe.stand_in import real
from vllm.model_executor.layers.fused_moe.experts import cpu_moe

from enginex.moe.switch import MoeSwitch
from enginex.settings import Settings
from enginex.vllm_cpu import patch_experts

switch = MoeSwitch(Settings(moe=True, moe_impl="compiled"), write=print)
patch_experts(cpu_moe, switch)
real(cpu_moe.X86CPUUnquantizedExperts, make(1, 1, 8, 64, 32, 2))
switch.announce()
