"""Why a point cannot be, and what deserves a second look: the codes of `reason` and the bits of `warnings`."""

REASONS = {
    "valid": "the point is valid",
    "fill": "the other sizes of the plan do not divide the device count",
    "world_size": "the plan does not use exactly the devices of the network",
    "tp_heads": "tp does not divide the attention heads",
    "tp_kv_heads": "tp and the KV heads do not divide one another",
    "pp_layers": "pp exceeds the layers of the model",
    "cp_prompt": "cp exceeds the tokens of the prompt",
    "cp_model": "cp is modelled for dense models with full attention only",
    "moe_ranks": "tp * ep exceeds the experts and is no multiple of them",
    "ep_experts": "the experts do not split evenly over the expert-parallel ranks",
    "ep_dense": "ep needs a model with routed experts",
    "connected_layers": "more layers are connected than the stack has",
    "thermal": "static power alone exceeds what the stack can cool: no clock is left",
    "routing_trace": "the routing trace does not fit the model or the load",
    "chip_layers": "the chip has no cycles for layers of the model",
}
"""Names and meanings of the reasons, in the order in which they are looked for; the code is the position."""

VALID = 0
CODES = {name: code for code, name in enumerate(REASONS)}
CP_PROMPT = CODES["cp_prompt"]
CONNECTED_LAYERS = CODES["connected_layers"]
THERMAL = CODES["thermal"]
ROUTING_TRACE = CODES["routing_trace"]

WARNINGS = {
    "idle_ranks": "the micro-batch has fewer sequences than there are data-parallel ranks",
    "batch_not_multiple_of_pp": "micro-batches are rounded up, since pp does not divide the batch",
    "empty_stages": "the layers leave pipeline stages empty",
    "kv_heads_replicated": "tp exceeds the KV heads, which are replicated",
    "does_not_fit": "weights and KV cache exceed the memory of a device of the fullest stage",
    "buffering_limited": "buffers limit the usable bandwidth",
    "clock_scaled": "the thermal policy scales the compute clock",
    "head_dim_mismatch": "heads times head size differ from the hidden size",
}
"""Names and meanings of the warnings; the bit is two to the power of the position."""

_BITS = {name: 1 << position for position, name in enumerate(WARNINGS)}
IDLE_RANKS = _BITS["idle_ranks"]
BATCH_NOT_MULTIPLE_OF_PP = _BITS["batch_not_multiple_of_pp"]
EMPTY_STAGES = _BITS["empty_stages"]
KV_HEADS_REPLICATED = _BITS["kv_heads_replicated"]
DOES_NOT_FIT = _BITS["does_not_fit"]
BUFFERING_LIMITED = _BITS["buffering_limited"]
CLOCK_SCALED = _BITS["clock_scaled"]
HEAD_DIM_MISMATCH = _BITS["head_dim_mismatch"]
