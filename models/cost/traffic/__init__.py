"""Who sends what in a step: by dimension, by tier, by stage, by pair of GPUs."""
