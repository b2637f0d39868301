"""Gated delta rule: the linear attention of Qwen3-Next and its kin, computed so that it cannot overflow."""
