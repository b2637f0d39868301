"""The search space: what may be varied, what is fixed, what is asked, and how a point becomes a deployment."""
