"""Groups on the fabric: where a rank order puts them, and how long their collectives take."""
