"""The kinds of workload: each module builds a plan from a few plain figures."""
