"""What the world is: architectures, hardware, workloads, layouts, and what a layout costs."""
