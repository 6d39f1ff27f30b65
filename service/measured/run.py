"""One measured run as its file states it: a field a column, of the column's own name.

A field that may be None is a column that may be blank: "not said", which is not zero.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class MeasuredRun:
    """A published run: its architecture, machine, layout and what was measured of it."""

    id: str
    """Unique; what stands before the last hyphen names the source."""
    source: str
    """The document it was read from."""
    model_name: str | None
    """What the source calls the model, to tell runs apart. The architecture is what the columns say:
    nothing is looked up."""

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocab: int
    gated_mlp: bool
    n_experts: int | None
    top_k: int | None
    moe_ffn: int | None
    shared_experts: int | None
    n_dense_layers: int | None
    mla: bool
    q_lora_rank: int | None
    kv_lora_rank: int | None
    qk_rope_head_dim: int | None
    qk_nope_head_dim: int | None
    v_head_dim: int | None
    tied_embeddings: bool | None
    params_total_B: float | None
    """Billions of parameters the source states."""

    gpu: str
    gpus: int
    gpus_per_node: int
    nvlink_domain_gpus: int
    nic_bytes_per_s: float

    seq_len: int
    micro_batch: int | None
    global_batch: int
    precision: str
    gradient_dtype: str | None

    tp: int
    cp: int
    pp: int
    vpp: int | None
    """Chunks a pipeline stage; 1 for none."""
    dp: int
    ep: int
    etp: int | None
    schedule: str | None
    """What follows a parenthesis is a remark; FSDP is a run without a pipeline."""
    zero_stage: int
    sp: bool
    hsdp_shard: int | None
    recompute: str | None
    recompute_modules: str | None
    """Comma-separated."""
    recompute_layers_per_stage: int | None

    framework: str
    attention_kernel: str
    fp8_recipe: str | None
    cuda_graph: str | None
    release: str | None
    """Container the run was published with, where there is one."""
    tp_overlap: bool
    ep_overlap: bool
    token_drop: bool
    mtp: bool
    activation_offload: bool
    offload_share: float | None
    """Share of the layers whose activations are offloaded; a column a file may leave out."""

    measured_step_s: float | None
    measured_tokens_per_s_per_gpu: float | None
    measured_tflops_per_gpu: float | None
    """In the way of counting `flops_kind` tells."""
    flops_kind: str | None
    measured_memory_GB_per_gpu: float | None
    """In the unit `mem_kind` tells."""
    mem_kind: str | None
    oom: bool
    """It ran out of memory."""
    confidence: str
    group: str | None
    """Runs of one configuration, or of one memory measurement, share it: they count once."""

    @property
    def family(self) -> str:
        """The source's short name.

        >>> "torchtitan-0001".rpartition("-")[0]
        'torchtitan'
        """
        return self.id.rpartition("-")[0] or self.id
