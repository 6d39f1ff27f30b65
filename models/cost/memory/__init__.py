"""Bytes a GPU holds: state, activations, buffers, and the stage that holds the most."""
