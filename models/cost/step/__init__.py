"""From kernels and traffic to the time of a step, its floor and its band."""
