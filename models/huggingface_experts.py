"""Reading a mixture of experts: how many, how wide, and in which layers."""

from typing import Any

from models.architecture import MixtureOfExperts
from models.huggingface_family import EXPERT_COUNT_KEYS, EXPERT_KEYS, TOP_K_KEYS, Experts
from models.huggingface_fields import DEEPEST, Fields


def says_experts(fields: Fields) -> bool:
    """Whether a configuration names any field of a mixture of experts."""
    keys = (*EXPERT_COUNT_KEYS, *TOP_K_KEYS, "moe_intermediate_size")
    return any(fields.stated(key) is not None for key in keys)


def read_experts(
    fields: Fields, experts: Experts, values: dict[str, Any], *, nameless: bool
) -> MixtureOfExperts | None:
    """The mixture of experts; None in a dense configuration, and after a fault."""
    if not experts.required and not nameless and _says_it_is_dense(fields):
        fields.read.update(EXPERT_KEYS)
        return None
    count, chosen = fields.count(*EXPERT_COUNT_KEYS), fields.count(*TOP_K_KEYS)
    width = _expert_width(fields, experts, values["ffn"], nameless=nameless)
    if count and chosen and chosen > count:
        key = fields.spelling(TOP_K_KEYS)
        fields.fault(key, f"a token cannot visit {chosen} of {count} experts", f"State at most {count}.")
    if not nameless:
        _must_say(fields, experts)
    pattern = _pattern(fields, experts, values["layers"])
    if count is None or chosen is None or width is None or pattern is None or chosen > count:
        return None
    if not any(pattern):
        return None
    return MixtureOfExperts(
        experts=count,
        experts_per_token=chosen,
        expert_ffn=width,
        shared_expert_ffn=_shared_width(fields, experts, width),
        **_places(pattern),
        **_groups(fields, count),
        **experts.fixed,
    )


def _says_it_is_dense(fields: Fields) -> bool:
    """Whether the count of experts is stated as none, and no expert is described beside it."""
    fields.read.update((*EXPERT_COUNT_KEYS, *TOP_K_KEYS))
    said = any(key in fields.config for key in EXPERT_COUNT_KEYS)
    return said and not any(fields.config.get(key) for key in (*EXPERT_COUNT_KEYS, *TOP_K_KEYS))


def _must_say(fields: Fields, experts: Experts) -> None:
    """Note shared experts and leading dense layers that neither the file nor its family states."""
    for key in (experts.shared_count, experts.dense_first):
        if key and key not in fields.config and key not in fields.family_defaults:
            fields.unsaid(key, "State a whole number; 0 for none.")


def _groups(fields: Fields, count: int) -> dict[str, int]:
    """Groups of experts and how many of them a token may choose from (DeepSeek's node-limited routing)."""
    groups = fields.optional_count("n_group", high=count) or 1
    chosen = fields.optional_count("topk_group", high=count) or groups
    if count % groups:
        fields.fault("n_group", f"does not divide the {count} experts", "State a divisor of them.")
    if chosen > groups:
        fields.fault("topk_group", f"a token cannot choose {chosen} of {groups} groups", f"At most {groups}.")
    return {"expert_groups": groups, "groups_per_token": chosen} if groups > 1 else {}


def _expert_width(fields: Fields, experts: Experts, ffn: int | None, *, nameless: bool) -> int | None:
    if nameless and fields.stated(experts.ffn) is None and ffn is not None:
        fields.assume(experts.ffn, ffn, "intermediate_size")
        return ffn
    return fields.count(experts.ffn)


def _shared_width(fields: Fields, experts: Experts, width: int) -> int:
    if experts.shared_as_routed:
        return width
    stated = fields.optional_count(experts.shared_width, low=0) if experts.shared_width else None
    if stated is not None:
        return stated
    count = fields.optional_count(experts.shared_count, low=0, high=1000) if experts.shared_count else None
    shared = (count or 0) * width
    if experts.shared_count and shared > 1_000_000:
        fields.fault(experts.shared_count, f"makes {shared} columns together", "State fewer shared experts.")
    return min(shared, 1_000_000)


def _pattern(fields: Fields, experts: Experts, layers: int | None) -> list[bool] | None:
    """Whether each layer is sparse, from whichever fields the family has; None after a fault."""
    first = fields.optional_count(experts.dense_first, low=0, high=DEEPEST) if experts.dense_first else None
    every = fields.optional_count(experts.every, high=DEEPEST) if experts.every else None
    last = fields.optional_count(experts.dense_last, low=-1, high=DEEPEST) if experts.dense_last else None
    dense = fields.indices(experts.dense_layers, layers) if experts.dense_layers else None
    sparse = fields.indices(experts.sparse_layers, layers) if experts.sparse_layers else None
    kinds = fields.names(experts.kinds, layers) if experts.kinds else None
    if experts.every_is_one and fields.stated(experts.every_is_one) is not None:
        _check_every_is_one(fields, experts.every_is_one)
    if layers is None:
        return None
    begin, step, end = first or 0, every or 1, layers - 1 if last in (None, -1) else last
    offset = 0 if experts.dense_last else begin
    pattern = [begin <= i <= (end or 0) and (i + 1 - offset) % step == 0 for i in range(layers)]
    if kinds is not None:
        pattern = _named(fields, experts.kinds or "", kinds)
    elif sparse:
        pattern = [i in set(sparse) for i in range(layers)]
    for layer in dense or ():
        pattern[layer] = False
    if not any(pattern):
        key = experts.dense_first or experts.every or "num_hidden_layers"
        fields.fault(key, f"leaves no sparse layer among {layers}", "Let at least one layer hold experts.")
        return None
    return pattern


def _named(fields: Fields, key: str, kinds: list[str]) -> list[bool]:
    unknown = sorted(set(kinds) - {"dense", "sparse"})
    if unknown:
        reason = f"{', '.join(unknown)[:80]} layers are not modelled"
        fields.fault(key, reason, 'Only "dense" and "sparse" are.')
    return [kind == "sparse" for kind in kinds]


def _check_every_is_one(fields: Fields, key: str) -> None:
    """One for all layers, or a one for each of them."""
    value = fields.stated(key)
    ones = value if isinstance(value, list) and value else [value]
    if any(isinstance(one, bool) or one != 1 for one in ones):
        fields.fault(key, "a pattern of sparse layers is not modelled", "Only 1 is.")


def _places(pattern: list[bool]) -> dict[str, Any]:
    """The shortest way to say which layers are sparse.

    >>> _places([False, True, True]), _places([False, True, False, True])
    ({'dense_first': 1}, {'every': 2})
    >>> _places([True, False, True])
    {'dense_layers': (1,)}
    """
    first = pattern.index(True)
    if all(pattern[first:]):
        return {"dense_first": first} if first else {}
    every = first + 1
    if every > 1 and pattern == [(i + 1) % every == 0 for i in range(len(pattern))]:
        return {"every": every}
    return {"dense_layers": tuple(i for i, sparse in enumerate(pattern) if not sparse)}
