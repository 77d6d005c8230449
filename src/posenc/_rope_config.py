"""The rotation that the configuration of a model in Hugging Face transformers describes.

The first part reads a configuration: which of its keys count, and which values the model's class
fills in. The second has the formulas of `ROPE_INIT_FUNCTIONS` in transformers 5.24, in float64.
With theta_i the unscaled frequencies, all of them but `dynamic` (another base) and `longrope` (a
divisor for each pair) blend theta_i and theta_i / factor by a ramp.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from . import _checks, _frequencies
from ._checks import MAX_COLUMNS, shown
from ._frequencies import logarithm, power
from ._rope_models import FAMILIES, REFUSED, Family, Layer

Floats = npt.NDArray[np.float64]
Values = dict[str, Any]

# The depth to which dictionaries are read: a layer type in rope_parameters in text_config.
_DEPTH = 3
# The most axes of positions: as `axes` of `Rotary` count them, and an mrope_section lists them.
MAX_AXES = 64


class Rope(NamedTuple):
    """Arguments of `Rotary`: either a base or frequencies; the other is None."""

    dim: int
    base: float | None = None
    frequencies: Floats | None = None
    attention_factor: float = 1.0
    axes: tuple[int, ...] | None = None
    layout: Literal["half", "interleaved"] = "half"


def from_config(config: Mapping[str, Any], given: Values, layer_type: str | None) -> Rope:
    """The arguments of `Rotary`; values that are ``given`` override the configuration."""
    with np.errstate(all="ignore"):
        return _rope(_read(_with_plain_keys(config), given, layer_type))


def _with_plain_keys(config: Mapping[Any, Any], depth: int = 0) -> dict[Any, Any]:
    """A copy with plain strings for keys, to a depth of `_DEPTH`: a subclass of str may lie."""
    plain = {}
    # As a list: the check of a value's type may run its code, which may change the dictionary.
    for key, value in list(config.items()):
        name = str.__str__(key) if issubclass(type(key), str) else key
        deeper = isinstance(value, Mapping) and depth < _DEPTH
        plain[name] = _with_plain_keys(value, depth + 1) if deeper else value
    return plain


# Which keys count.

# A key with one of these words between its underscores may affect the rotation ...
_WORDS = frozenset(("longrope", "mrope", "ntk", "rope", "rotary", "theta", "xdrope", "yarn"))
# ... except these, which are about layers without one, about positions, or about other tensors.
_HARMLESS_KEYS = frozenset(
    (
        "memory_attention_rope_dropout",
        "memory_attention_rope_feat_sizes",
        "memory_attention_rope_k_sizes",
        "no_rope_layer_interval",
        "no_rope_layers",
        "relation_bias_theta",
        "rotary_value",
        "use_mem_rope",
    )
)
# Keys of a rope dictionary that do not affect the rotation: its history, a factor on queries.
_WITHOUT_EFFECT = frozenset(("finetuned", "llama_4_scaling_beta"))
_FORMULA_KEYS = frozenset(
    (
        "alpha",
        "attention_factor",
        "beta_fast",
        "beta_slow",
        "factor",
        "high_freq_factor",
        "interleaved",
        "long_factor",
        "long_mscale",
        "low_freq_factor",
        "mrope_interleaved",
        "mrope_section",
        "mscale",
        "mscale_all_dim",
        "rope_type",
        "short_factor",
        "short_mscale",
        "truncate",
        "type",
    )
)
# Older names of keys.
_SYNONYMS = {
    "rotary_emb_base": "rope_theta",
    "rotary_embedding_base": "rope_theta",
    "rotary_pct": "partial_rotary_factor",
    "rope_pct": "partial_rotary_factor",
}
_SIZES = {
    "hidden_size": ("n_embd", "d_model"),
    "num_attention_heads": ("n_head", "n_heads", "num_heads"),
    "max_position_embeddings": ("n_positions", "max_seq_len", "model_max_length"),
}
# Keys that may be in a rope dictionary or outside it.
_SHARED_KEYS = frozenset(
    (
        "max_position_embeddings",
        "original_max_position_embeddings",
        "partial_rotary_factor",
        "rope_theta",
        *_SYNONYMS,
    )
)
_OUTER_KEYS = frozenset(
    (
        "head_dim",
        "layer_rope_theta",
        "model_type",
        "qk_rope_head_dim",
        "rope_interleave",
        "rope_scaling_layers",
        "rotary_dim",
        "seq_len",
        *_SIZES,
        *(name for names in _SIZES.values() for name in names),
    )
)
# Keys that tell the whole configuration of a model from a rope dictionary.
_MODEL_KEYS = frozenset(
    ("architectures", "num_hidden_layers", "transformers_version", "vocab_size")
)

# A model of which only the keys are known.
_UNKNOWN_FAMILY = Family(
    part=True, alpha=True, rope_interleave=True, reads=(*_SYNONYMS, "rotary_dim")
)


def _check_keys(config: Values, rope: Values | None, family: Family) -> None:
    """ValueError for a key that may affect the rotation in a way that is not known here."""
    for key in rope or ():
        if key not in _FORMULA_KEYS | _SHARED_KEYS | _WITHOUT_EFFECT:
            raise ValueError(_unknown_key(key))
    known = {*family.quotient, family.width, "rope_parameters", "rope_scaling"}
    known |= _SHARED_KEYS | _OUTER_KEYS | _HARMLESS_KEYS
    known |= {layer.theta_key for layer in family.layers.values() if layer.theta_key}
    strict = False
    if rope is None:
        known |= _FORMULA_KEYS | _WITHOUT_EFFECT
        strict = not {"rope_type", "type"}.isdisjoint(config) and _MODEL_KEYS.isdisjoint(config)
    for key, value in config.items():
        if key not in known and value is not False and (strict or _may_affect_rotation(key)):
            raise ValueError(_unknown_key(key))


def _may_affect_rotation(key: Any) -> bool:
    return isinstance(key, str) and not _WORDS.isdisjoint(key.lower().split("_"))


def _unknown_key(key: Any) -> str:
    why = "what it does to the rotation is not known here"
    if key == "attn_factor":
        why = "transformers ignores it, others multiply by it; attention_factor is read by all"
    return f"config must be without {shown(key)}: {why}"


# How they are read.


def _read(config: Mapping[str, Any], given: Values, layer_type: str | None) -> "_Config":
    outer, null = _text_values(config)
    name = outer.get("model_type", "")
    if not isinstance(name, str):
        raise TypeError(f"model_type must be a string, got {shown(name)}")
    name = str.__str__(name)  # a subclass of str may lie
    if name in REFUSED:
        raise ValueError(f"model_type {name!r} turns as no Rotary does: {REFUSED[name]}")
    family = FAMILIES.get(name, _UNKNOWN_FAMILY)
    rope = _rope_dictionary(outer, family, layer_type)
    _check_keys(outer, rope, family)
    values = _merge(outer | _layer_widths(outer, family, layer_type), rope, family)
    rope_type = _rope_type(values, family)
    for old in [old for old, new in _SYNONYMS.items() if new in given]:
        values.pop(old, None)
    values |= {key: _as_python_integer(key, value) for key, value in given.items()}
    overridden = _pop_overridden_widths(values, family)
    _fill_defaults(values, family, null, alone=rope is None)
    _fill_lengths(values, rope_type)
    if rope_type != "longrope" and "short_factor" in values:  # Phi-3 has other names for it
        raise ValueError(
            f"short_factor must be left out for rope_type {rope_type!r}, which has none, "
            f"got {shown(values['short_factor'])}"
        )
    result = _Config(values, family, rope_type)
    _check(result, {key: outer[key] for key in outer.keys() - given}, overridden, layer_type)
    return result


def _text_values(config: Mapping[str, Any]) -> tuple[Values, set[str]]:
    """The values of a model, or of its part for text, and the keys that are null."""
    text = config.get("text_config")
    if isinstance(text, Mapping):
        name = config.get("model_type")
        name = f"{name}_text" if isinstance(name, str) else ""
        own = {"model_type": name} if name in FAMILIES else {}
        config = {**own, **text}
    values = {key: value for key, value in config.items() if value is not None}
    return values, config.keys() - values.keys()


def _rope_dictionary(config: Values, family: Family, layer_type: str | None) -> Values | None:
    """The rope dictionary of a layer type; None where its keys are among those of the model."""
    parameters = _dictionary(config, "rope_parameters")
    scaling = _dictionary(config, "rope_scaling")
    if "rope_type" in config and _MODEL_KEYS.isdisjoint(config) and not (parameters or scaling):
        return None  # a rope dictionary itself, of unknown layers
    if family.layers:
        return _layer_dictionary(config, parameters, scaling, family, layer_type)
    if parameters and scaling:
        rope: Values | None = _combine(parameters, scaling)
    elif parameters or scaling:
        rope = parameters or scaling
    elif family.parameters:
        rope = dict(family.parameters)
    else:
        rope = {} if "rope_parameters" in config or "rope_scaling" in config else None
    layers = _keys_of_mappings(rope or {})
    if rope and layers:
        rope = _select_layer(rope, layers, layer_type)
    elif layer_type is not None:
        types = config.get("layer_types")
        if not isinstance(types, list | tuple) or layer_type not in types:
            raise ValueError(
                f"layer_type must be None where no layer has parameters of its own, "
                f"got {shown(layer_type)}"
            )
    return None if rope is None else {k: v for k, v in rope.items() if v is not None}


def _dictionary(config: Values, key: str) -> Values:
    value = config.get(key, {})
    if not isinstance(value, Mapping):
        raise TypeError(f"{key} must be a mapping, got {shown(value)}")
    return dict(value)


# Keys that belong to some values of rope_type only.
_TYPE_KEYS = _FORMULA_KEYS - {"interleaved", "mrope_interleaved", "mrope_section"}


def _combine(parameters: Values, scaling: Values) -> Values:
    """`rope_scaling` overrides `rope_parameters` except for their theta, as in transformers."""
    nested = _keys_of_mappings({**parameters, **scaling})
    if nested:
        raise ValueError(
            f"rope_scaling must be None where rope_parameters are, for {shown(nested[0])}"
        )
    kept = {key: value for key, value in parameters.items() if key not in _TYPE_KEYS}
    for key in kept.keys() & scaling.keys():
        if not _are_equal(kept[key], scaling[key]):
            raise ValueError(
                f"rope_scaling and rope_parameters must agree on {key}, "
                f"got {shown(scaling[key])} and {shown(kept[key])}"
            )
    return kept | scaling


def _are_equal(a: Any, b: Any) -> bool:
    """Whether two values are equal, if they are of a type that JSON has."""
    return type(a) in (bool, int, float, str, list) and a == b


def _keys_of_mappings(rope: Values) -> list[Any]:
    return [key for key, value in rope.items() if isinstance(value, Mapping)]


def _select_layer(rope: Values, layers: Iterable[Any], layer_type: str | None) -> Values:
    """One of the dictionaries for several layer types."""
    for key, value in rope.items():
        if value is not None and key not in (*layers, "rope_type", "type"):
            raise ValueError(f"rope_parameters must have layer types alone, got {shown(key)}")
    if layer_type in rope and rope[layer_type] is None:
        raise ValueError(f"layer_type must be one with a rotation, got {shown(layer_type)}")
    chosen: Mapping[str, Any] = rope[_check_layer_type(layers, layer_type)]
    return _without_truncate({key: value for key, value in chosen.items() if value is not None})


def _check_layer_type(layers: Iterable[Any], layer_type: str | None) -> str:
    names = list(layers)
    if not isinstance(layer_type, str) or layer_type not in names:
        listed = ", ".join(shown(name).strip("'") for name in names[:4])
        raise ValueError(f"layer_type must be one of {listed}, got {shown(layer_type)}")
    return layer_type


def _layer_dictionary(
    config: Values, parameters: Values, scaling: Values, family: Family, layer_type: str | None
) -> Values:
    """The rope dictionary of a layer type, from a class's newer or older form of several."""
    layers = _keys_of_mappings(parameters)
    if parameters and not layers:
        raise ValueError(
            f"rope_parameters must have {', '.join(family.layers)}, got {shown(parameters)}"
        )
    if scaling and (
        _keys_of_mappings(scaling) or not any(of.scaled for of in family.layers.values())
    ):
        raise ValueError(f"rope_scaling must be in rope_parameters, got {shown(scaling)}")
    if scaling and layers and not family.updates:
        raise ValueError(f"rope_scaling must be in rope_parameters, got {shown(scaling)}")
    name = _check_layer_type(layers or family.layers, layer_type)
    layer = family.layers.get(name, Layer())
    if layers:
        rope = _select_layer(parameters, layers, name)
        rope.setdefault("partial_rotary_factor", layer.written)
    else:
        partial = config.get("partial_rotary_factor", layer.partial)
        rope = {"rope_type": layer.rope_type, "partial_rotary_factor": partial}
        if family.nested:
            rope |= {"rope_theta": layer.theta, "partial_rotary_factor": layer.partial}
    if scaling and layer.scaled:
        if layer.attention_factor is not None and "yarn" in (
            scaling.get("rope_type"),
            scaling.get("type"),
        ):
            rope["attention_factor"] = layer.attention_factor
        rope |= _without_truncate(
            {key: value for key, value in scaling.items() if value is not None}
        )
    if "rope_theta" not in rope and not family.nested:
        rope["rope_theta"] = config.get(layer.theta_key or "", layer.theta)
    key = "original_max_position_embeddings"  # the value for all layers is not read
    if key in config and key not in rope and "max_position_embeddings" in config:
        rope[key] = config["max_position_embeddings"]
    return rope


def _without_truncate(rope: Values) -> Values:
    if "truncate" in rope:
        raise ValueError(
            f"truncate must be left out of the parameters of one layer type, where transformers "
            f"does not read it, got {shown(rope['truncate'])}"
        )
    return rope


def _layer_widths(config: Values, family: Family, layer_type: str | None) -> Values:
    """Widths that the layers of one type have and others do not."""
    layer = family.layers.get(layer_type or "")
    layers, types = config.get("per_layer_config"), config.get("layer_types")
    if isinstance(layers, Mapping) and isinstance(types, list) and layer_type is not None:
        own = [_widths_of(of) for of in _layers_of_type(layers, types, layer_type)]
        if any(of != own[0] for of in own):
            raise ValueError(f"per_layer_config must be alike in all layers of {layer_type!r}")
        return own[0] if own else {}
    if layer is None or layer.head_dim is None:
        return {}
    key, default = layer.head_dim
    return {"head_dim": config.get(key, default)}


def _layers_of_type(layers: Mapping[Any, Any], types: Sequence[Any], layer_type: str) -> list[Any]:
    """The values of each layer of a type; the layers' numbers may be strings with leading zeros."""
    numbered = {str(key).lstrip("0") or "0": value for key, value in layers.items()}
    return [numbered.get(str(i), {}) for i, of in enumerate(types) if of == layer_type]


def _widths_of(values: Any) -> Values:
    if not isinstance(values, Mapping):
        raise TypeError(f"per_layer_config must have mappings, got {shown(values)}")
    return {key: values[key] for key in ("head_dim", "qk_rope_head_dim") if key in values}


def _merge(outer: Values, rope: Values | None, family: Family) -> Values:
    """The values of a model that count, overridden by those of its rope dictionary."""
    values = {key: value for key, value in outer.items() if key not in family.ignores}
    if rope is None:
        if not _MODEL_KEYS.isdisjoint(values):  # which means something else there
            values.pop("type", None)
    else:
        kept = _SHARED_KEYS | _OUTER_KEYS | {*family.quotient, family.width}
        values = {key: value for key, value in values.items() if key in kept}
        key = "original_max_position_embeddings"
        if key in rope and key in values and not _are_equal(values[key], rope[key]):
            raise ValueError(
                f"{key} must be the same in the rope parameters and beside them, "
                f"got {shown(rope[key])} and {shown(values[key])}"
            )
        longest = values.get("max_position_embeddings")
        values |= rope
        if longest is not None:
            values["max_position_embeddings"] = longest
    for key, names in _SIZES.items():
        for name in names:
            if name in values:
                values.setdefault(key, values[name])
    return values


def _rope_type(values: Values, family: Family) -> str:
    rope_type = values.get("rope_type", values.get("type", "default"))
    if isinstance(rope_type, str):
        rope_type = str.__str__(rope_type)  # a subclass may lie
    if not isinstance(rope_type, str) or rope_type not in (*_FORMULAS, *family.longrope, "mrope"):
        raise ValueError(f"rope_type must be one of {', '.join(_FORMULAS)}, got {shown(rope_type)}")
    if rope_type in family.longrope:
        return "longrope"
    if rope_type == "mrope":  # in the first files of Qwen2-VL
        rope_type = "default"
    if family.only == ("axial",) and rope_type == "default":
        rope_type = "axial"
    types = family.only or _FORMULAS
    if rope_type not in types or (
        rope_type == "axial" and not family.only and family is not _UNKNOWN_FAMILY
    ):
        raise ValueError(
            f"rope_type must be one that model_type {shown(values.get('model_type'))} has, "
            f"got {rope_type!r}"
        )
    return rope_type


def _pop_overridden_widths(values: Values, family: Family) -> Values:
    """Remove and return the widths that others override: they must agree with those."""
    overridden = {}
    if family is not _UNKNOWN_FAMILY:
        read = {family.width, *family.reads}
        for key in {"qk_rope_head_dim", "rotary_dim"} & values.keys() - read:
            overridden[key] = values.pop(key)
    if {"partial_rotary_factor", "qk_rope_head_dim"} & values.keys() and "rotary_dim" in values:
        overridden["rotary_dim"] = values.pop("rotary_dim")
    return overridden


def _fill_defaults(values: Values, family: Family, null: set[str], alone: bool) -> None:
    """Fill in missing values from older keys and from the model's class."""
    for old, new in _SYNONYMS.items():
        if old in values and old in family.reads:
            values.setdefault(new, values[old])
    # It is not known which layers a rope dictionary without a model is for.
    if family is not _UNKNOWN_FAMILY and not (alone and family.layers):
        if not family.layers:
            values.setdefault("rope_theta", family.theta)
        key = family.width or "head_dim"
        if family.head_dim is not None and key not in null:  # null is the quotient
            values.setdefault(key, family.head_dim)
    values.setdefault("partial_rotary_factor", family.partial)


def _fill_lengths(values: Values, rope_type: str) -> None:
    """Fill in the length of the training, and the factor by which the model exceeds it."""
    if rope_type not in ("yarn", "longrope", "llama3") or "max_position_embeddings" not in values:
        return
    longest = values["max_position_embeddings"]
    original = values.setdefault("original_max_position_embeddings", longest)
    if rope_type != "llama3" and "factor" not in values:
        values["factor"] = _number("max_position_embeddings", longest) / _number(
            "original_max_position_embeddings", original
        )


class _Config(NamedTuple):
    """The values of one rotation, the class's among them, each of which is checked when read."""

    values: Values
    family: Family
    rope_type: str

    @property
    def known(self) -> bool:
        """Whether the model's class is known, and with it which keys it reads."""
        return self.family is not _UNKNOWN_FAMILY

    def number(self, key: str, default: float | None = None) -> float:
        return _number(key, self.values[key] if default is None else self.values.get(key, default))

    def number_unless_zero(self, key: str, default: float) -> float:
        """A number, or the default where it is missing or 0, as in transformers."""
        value = self.values.get(key, default)
        return default if _is_zero(value) else _number(key, value)

    def length(self, key: str, default: float | None = None) -> float:
        """The length of a sequence: an integer of any type, or as in some files a float."""
        value = self.values[key] if default is None else self.values.get(key, default)
        return _number(key, _as_python_integer(key, value))

    def boolean(self, key: str, default: bool) -> bool:
        value = self.values.get(key, default)
        if not isinstance(value, bool):
            raise TypeError(f"{key} must be true or false, got {shown(value)}")
        return value

    @property
    def alpha(self) -> bool:
        return self.family.alpha and not _is_zero(self.values.get("alpha", 0))

    @property
    def theta(self) -> float:
        return self.number("rope_theta")

    @property
    def partial(self) -> float:
        partial = self.number("partial_rotary_factor")
        if partial > 1.0:
            raise ValueError(f"partial_rotary_factor must be at most 1, got {partial}")
        return partial

    @property
    def widths(self) -> tuple[str, ...]:
        """The keys of a head's width: the first divided by all others."""
        for key in ("qk_rope_head_dim", "head_dim", self.family.width):
            if key is not None and key in self.values:
                return (key,)
        return self.family.quotient

    @property
    def head_dim(self) -> int:
        first, *others = [_size(key, self.values[key]) for key in self.widths]
        return _check_width(" // ".join(self.widths), first // math.prod(others))

    @property
    def dim(self) -> int:
        """The number of columns that are rotated."""
        for key in ("qk_rope_head_dim", "rotary_dim"):
            if key in self.values:
                return self._rotated_width(key)
        head_dim, partial = self.head_dim, self.partial
        dim = int(head_dim * partial)
        if dim % 2 or not dim:
            raise ValueError(
                f"head_dim and partial_rotary_factor must leave an even number of columns, not 0, "
                f"got {head_dim} * {partial:g} = {dim}"
            )
        return dim

    def _rotated_width(self, key: str) -> int:
        """A number of columns that does not depend on the width of a head."""
        dim = _check_width(key, _size(key, self.values[key]))
        if dim % 2:
            raise ValueError(f"{key} must be even, columns turn in pairs, got {dim}")
        if key == "rotary_dim" and "head_dim" in self.values and dim > self.head_dim:
            raise ValueError(f"rotary_dim must be at most head_dim, {self.head_dim}, got {dim}")
        return dim

    @property
    def missing(self) -> list[str]:
        """The keys that the rotation needs and the configuration lacks."""
        needed = ["rope_theta", *_REQUIRED.get(self.rope_type, ())]
        if self.rope_type == "dynamic" and self.alpha:
            needed = ["rope_theta"]
        keys = [key for key in needed if key not in self.values]
        if "rotary_dim" not in self.values and any(key not in self.values for key in self.widths):
            keys.insert("rope_theta" in keys, "head_dim")
        return keys

    @property
    def layout(self) -> Literal["half", "interleaved"]:
        layout = self.family.layout
        if "rope_interleave" not in self.values:
            return layout
        given_layout: Literal["half", "interleaved"]
        given_layout = "interleaved" if self.boolean("rope_interleave", False) else "half"
        if not self.family.rope_interleave and given_layout != layout:
            raise ValueError(
                f"rope_interleave must be {layout == 'interleaved'} for a model_type whose class "
                f"does not read it, got {self.values['rope_interleave']}"
            )
        return given_layout

    def theta_powers(self) -> Floats:
        return _theta_powers(self.theta, self.dim)


def _number(key: str, value: Any) -> float:
    if isinstance(value, bool | str | bytes | Sequence | Mapping):
        raise TypeError(f"{key} must be a number, got {shown(value)}")
    return _checks.finite(key, value, positive=True)


def _size(key: str, value: Any) -> int:
    if isinstance(value, bool | str | bytes | Sequence | Mapping):
        raise TypeError(f"{key} must be an integer, got {shown(value)}")
    return _checks.integer(key, value, least=1)


def _as_python_integer(key: str, value: Any) -> Any:
    """An integer of any type as Python's own int, anything else unchanged."""
    if hasattr(type(value), "__index__") and not isinstance(value, bool):
        return _checks.integer(key, value, least=1)
    return value


def _check_width(key: str, width: int) -> int:
    if not 0 < width <= MAX_COLUMNS:
        raise ValueError(f"{key} must be from 1 to {MAX_COLUMNS}, got {shown(width)}")
    return width


def _is_zero(value: Any) -> bool:
    return type(value) in (int, float) and value == 0


# Keys that must agree with one another, or mean something else than they seem to.


def _check(config: _Config, outer: Values, overridden: Values, layer_type: str | None) -> None:
    _check_missing(config, outer)
    for key, value in overridden.items():
        if _size(key, value) != config.dim:
            raise ValueError(
                f"{key} must be what other keys leave of a head, {config.dim}, got {shown(value)}"
            )
    for old, new in _SYNONYMS.items():
        if old in config.values and config.number(new) != config.number(old):
            raise ValueError(
                f"{old} must be {new}, {config.number(new):g}, got {shown(config.values[old])}"
            )
    for key, used in _values_used_instead(config, layer_type).items():
        if key in outer and _number(key, outer[key]) != used:
            raise ValueError(
                f"{key} must be what is read in its place, {used:g}, got {shown(outer[key])}"
            )
    _check_class(config, outer)
    if "seq_len" in config.values:
        config.length("seq_len")
    _check_layers(config, outer)


def _values_used_instead(config: _Config, layer_type: str | None) -> dict[str, float]:
    """Keys that the class ignores, and the values that it uses instead."""
    keys = {"rope_theta": config.theta, "partial_rotary_factor": config.partial}
    family = config.family
    used = {key: value for key, value in keys.items() if key in family.ignores}
    if "head_dim" in family.ignores and config.widths != ("head_dim",):
        used["head_dim"] = config.head_dim
    if family.nested:
        layer = family.layers.get(layer_type or "", Layer())
        used |= {"partial_rotary_factor": config.partial, layer.theta_key or "": config.theta}
    return used


def _check_class(config: _Config, outer: Values) -> None:
    """ValueError for keys that other classes read and this one ignores."""
    if not config.known:
        return
    name = shown(config.values.get("model_type"))
    strange = [key for key in config.family.refuses if key in outer]
    if not config.family.mscales:
        strange += [key for key in ("short_mscale", "long_mscale") if key in config.values]
    if not config.family.alpha and config.rope_type == "dynamic" and "alpha" in config.values:
        strange += ["alpha"]
    if strange:
        raise ValueError(
            f"{strange[0]} must be left out for model_type {name}, whose class does not read it"
        )
    _check_partial(config, name)


def _check_missing(config: _Config, outer: Values) -> None:
    missing = config.missing
    if not missing:
        return
    text = f"config must have {', '.join(missing)} for rope_type {config.rope_type!r}"
    arguments = [f"{key}=" for key in missing if key in _ARGUMENTS]
    if arguments:
        text += f", or give {', '.join(arguments)}"
    parts = [key for key in _keys_of_mappings(outer) if str(key).endswith("_config")]
    if parts:
        text += f"; it may be in {', '.join(shown(key) for key in parts[:3])}"
    raise ValueError(text)


def _check_partial(config: _Config, name: str) -> None:
    """ValueError for a partial factor where the class rotates whole heads whatever it is, or fails."""
    latent = config.family.width == "qk_rope_head_dim"
    if latent != config.family.part or config.rope_type in ("axial", "proportional"):
        return
    if config.partial != 1.0:
        raise ValueError(
            f"partial_rotary_factor must be 1 for model_type {name}, got {config.partial}"
        )


def _check_layers(config: _Config, outer: Values) -> None:
    """ValueError where lists with an entry for each layer differ between rotated layers."""
    thetas = outer.get("layer_rope_theta", [])
    if not isinstance(thetas, list) or any(
        not _is_zero(theta) and _number("layer_rope_theta", theta) != config.theta
        for theta in thetas
    ):
        raise ValueError(
            f"layer_rope_theta must be rope_theta, {config.theta}, or 0 in every layer, "
            f"got {shown(thetas)}"
        )
    scaled, count = outer.get("rope_scaling_layers"), outer.get("num_hidden_layers")
    if scaled is None or config.rope_type == "default":
        return
    if (
        not isinstance(scaled, list)
        or not _are_equal(len(scaled), count)
        or any(not _are_equal(layer, i) for i, layer in enumerate(scaled))
    ):
        raise ValueError(f"rope_scaling_layers must be all layers, got {shown(scaled)}")


# The rotation.


def _rope(config: _Config) -> Rope:
    rope = _FORMULAS[config.rope_type](config)
    if rope.axes is None:
        rope = rope._replace(axes=_axes(config, rope.dim // 2))
    if config.family.inverse:
        frequencies = config.theta_powers() if rope.frequencies is None else rope.frequencies
        rope = rope._replace(base=None, frequencies=-frequencies)
    numbers = [
        rope.base or 0.0,
        rope.attention_factor,
        *(() if rope.frequencies is None else rope.frequencies),
    ]
    if not np.isfinite(numbers).all():
        keys = [key for key in _SCALING if key in config.values]
        raise ValueError(
            f"{', '.join(keys)} must leave finite frequencies and attention for rope_type "
            f"{config.rope_type!r}, got {', '.join(shown(config.values[key]) for key in keys)}"
        )
    return rope._replace(layout=config.layout)


def _theta_powers(theta: float, dim: int) -> Floats:
    """``theta ** (-2 * i / dim)``."""
    try:
        return _frequencies.angular_frequencies(theta, dim // 2)
    except ValueError:
        raise ValueError(
            f"rope_theta must leave frequencies that do not overflow, got {theta}"
        ) from None


def _blend(config: _Config, kept: Floats) -> Floats:
    """theta where `kept` is 1, theta / factor where it is 0, and a mean weighted by it between."""
    theta = config.theta_powers()
    return theta / config.number("factor") * (1.0 - kept) + theta * kept


def _default(config: _Config) -> Rope:
    return Rope(config.dim, config.theta)


def _linear(config: _Config) -> Rope:
    return Rope(config.dim, frequencies=config.theta_powers() / config.number("factor"))


def _dynamic(config: _Config) -> Rope:
    """NTK-aware: a base for the length of the sequence, beyond that of the training.

    Hunyuan's is stretched by `alpha`, whatever the length is.
    """
    dim = config.dim
    if config.alpha:
        stretch = config.number("alpha")
    else:
        factor, trained = config.number("factor"), config.length("max_position_embeddings")
        length = max(config.length("seq_len", trained), trained)
        stretch = 1.0 + factor * (length - trained) / trained
    # Two columns are one pair, whose frequency is 1 whatever the base is.
    exponent = dim / (dim - 2) if dim > 2 else 0.0
    return Rope(dim, config.theta * power(stretch, exponent))


def _yarn(config: _Config) -> Rope:
    """Peng et al., "YaRN" (arXiv:2309.00071): a ramp over the numbers of the pairs."""
    dim, factor = config.dim, config.number("factor")
    trained = config.length("original_max_position_embeddings")
    if config.theta <= 1.0:
        raise ValueError(f"rope_theta must be above 1 for rope_type 'yarn', got {config.theta}")

    def pair(key: str, default: float) -> float:
        """The number of the pair, a fraction, that makes so many rotations in the trained length."""
        length = trained / (2.0 * math.pi * config.number_unless_zero(key, default))
        if not 0.0 < length < math.inf:
            raise ValueError(f"{key} must leave a finite number of turns, got {config.values[key]}")
        return dim * logarithm(length) / (2.0 * logarithm(config.theta))

    low, high = pair("beta_fast", 32.0), pair("beta_slow", 1.0)
    if config.boolean("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0.0), min(high, dim - 1.0)
    if low == high:
        high += 0.001
    kept = 1.0 - np.clip((np.arange(dim // 2) - low) / (high - low), 0.0, 1.0)
    return Rope(
        dim,
        frequencies=_blend(config, kept),
        attention_factor=_yarn_attention_factor(config, factor),
    )


def _yarn_attention_factor(config: _Config, factor: float) -> float:
    """The given factor, or the paper's; of DeepSeek's two scales the quotient: equal ones cancel."""
    if "attention_factor" in config.values:
        return config.number("attention_factor")

    def scale(mscale: float) -> float:
        return 1.0 if factor <= 1.0 else 0.1 * mscale * logarithm(factor) + 1.0

    one, all_dim = (config.values.get(key, 0) for key in ("mscale", "mscale_all_dim"))
    if _is_zero(one) or _is_zero(all_dim):
        return scale(1.0)
    return scale(config.number("mscale")) / scale(config.number("mscale_all_dim"))


def _longrope(config: _Config) -> Rope:
    """Ding et al., "LongRoPE" (arXiv:2402.13753): a divisor for each pair."""
    dim, factor = config.dim, config.number("factor")
    trained = config.length("original_max_position_embeddings")
    long = config.length("seq_len", trained) > trained
    if long and config.family.mscales:
        raise ValueError(
            f"seq_len must be at most {trained:g} for model_type "
            f"{shown(config.values['model_type'])}, whose class has no frequencies beyond"
        )
    key = "long_factor" if long else "short_factor"
    divisors = _divisors(key, config.values[key], dim // 2)
    attention_factor = 1.0
    if factor > 1.0 and trained > 1.0:
        attention_factor = math.sqrt(1.0 + logarithm(factor) / logarithm(trained))
    attention_factor = config.number("attention_factor", attention_factor)
    # as in Phi-3.5-MoE
    attention_factor = config.number("long_mscale" if long else "short_mscale", attention_factor)
    return Rope(
        dim, frequencies=config.theta_powers() / divisors, attention_factor=attention_factor
    )


def _divisors(key: str, values: Any, count: int) -> Floats:
    given = _listed(key, values)
    if len(given) != count:
        raise ValueError(f"{key} must be {count} positive numbers, got {len(given)} of them")
    return np.array([_number(key, value) for value in given])


def _listed(key: str, values: Any) -> Sequence[Any]:
    if isinstance(values, np.ndarray) and values.ndim == 1:
        values = values.tolist()
    if not isinstance(values, list | tuple):
        raise TypeError(f"{key} must be a list of numbers, got {shown(values)}")
    return values


def _llama3(config: _Config) -> Rope:
    """Llama 3.1: a ramp over the rotations that a pair makes in the trained length.

    Where it has no length, as in Llama 4, the ramp is a step.
    """
    low, high = config.number("low_freq_factor"), config.number("high_freq_factor")
    rotations = (
        config.length("original_max_position_embeddings") * config.theta_powers() / (2.0 * math.pi)
    )
    if low < high:
        kept = np.clip((rotations - low) / (high - low), 0.0, 1.0)
    else:
        kept = np.where(rotations < low, 0.0, 1.0)
    return Rope(config.dim, frequencies=_blend(config, kept))


def _proportional(config: _Config) -> Rope:
    """As in Gemma: of the frequencies of a whole head the first are used, the others are 0."""
    dim = config.head_dim
    if dim % 2:
        raise ValueError(f"head_dim must be even, columns turn in pairs, got {dim}")
    theta = _theta_powers(config.theta, dim) / config.number("factor", 1.0)
    theta[int(config.partial * dim // 2) :] = 0.0
    return Rope(dim, frequencies=theta)


def _axial(config: _Config) -> Rope:
    """As in vision models: each axis of a picture, or of several frames, rotates some of the pairs."""
    dim, theta = config.head_dim, config.theta
    if config.family.axes == "frames, rows, columns":
        return _frames(dim, theta)
    if dim % 4:
        raise ValueError(f"head_dim must be a multiple of 4 for rope_type 'axial', got {dim}")
    each = dim // 4
    frequencies = np.tile(_theta_powers(theta, dim // 2), 2)
    axes = (0,) * each + (1,) * each
    if config.family.axes == "columns, rows":
        axes = axes[::-1]
    elif config.family.axes == "column, row, column, ...":
        frequencies, axes = frequencies.reshape(2, each).T.ravel(), (1, 0) * each
    elif config.family.axes == "rows of even pairs, columns of odd":
        frequencies = _theta_powers(theta, dim).reshape(each, 2).T.ravel()
    return Rope(dim, frequencies=frequencies, axes=axes)


def _frames(head_dim: int, theta: float) -> Rope:
    each = head_dim // 6
    if not each:
        raise ValueError(f"head_dim must be at least 6 for three axes, got {head_dim}")
    axes = (0,) * each + (1,) * each + (2,) * each
    return Rope(6 * each, frequencies=np.tile(_theta_powers(theta, 2 * each), 3), axes=axes)


def _axes(config: _Config, pairs: int) -> tuple[int, ...] | None:
    """Which positions rotate each pair, of time, height or width: as in Qwen2-VL and Qwen3-VL."""
    order = config.family.axes
    if order == "row, column, row, ...":
        return tuple(i % 2 for i in range(pairs))
    keys = [key for key in ("mrope_interleaved", "interleaved") if key in config.values]
    interleaved = [config.boolean(key, False) for key in keys]
    if "mrope_section" not in config.values and any(interleaved) and order == "none":
        raise ValueError(f"{keys[interleaved.index(True)]} must come with mrope_section, got True")
    if not config.known and "mrope_section" in config.values:
        order = "interleaved" if any(interleaved) else "blocks"
    elif any(each != (order == "interleaved") for each in interleaved) and order != "none":
        raise ValueError(f"{keys[0]} must be {order == 'interleaved'} for this model_type")
    if order == "none":
        if "mrope_section" in config.values:
            raise ValueError(
                f"mrope_section must be None for model_type "
                f"{shown(config.values['model_type'])}, whose class does not turn by it"
            )
        return None
    return _by_sections(config, pairs, order)


def _by_sections(config: _Config, pairs: int, order: str) -> tuple[int, ...]:
    given = config.values.get("mrope_section", config.family.sections)
    listed = _listed("mrope_section", given)
    if len(listed) > MAX_AXES or (len(listed) != 3 and (config.known or order == "interleaved")):
        raise ValueError(f"mrope_section must be 3 lengths, got {len(listed)} of them")
    sections = [_section(length) for length in listed]
    # The class's own may be for a wider head: the last of them then rotate nothing.
    own = order == "interleaved" and "mrope_section" not in config.values
    if sum(sections) != pairs and not own:
        raise ValueError(
            f"mrope_section must be lengths whose sum is {pairs}, the number of pairs, "
            f"got {shown(given)}"
        )
    if order == "blocks":
        return tuple(axis for axis, length in enumerate(sections) for _ in range(length))
    if order == "height and width interleaved, then time":
        height, width, time = sections
        if height != width:
            raise ValueError(f"mrope_section must be as long for height as for width, got {given}")
        return (1, 2) * height + (0,) * time
    # Consecutive pairs belong to the three in turn, while a section has pairs left; then to time.
    axes = [0] * pairs
    for axis in (1, 2):
        for pair in range(axis, min(3 * sections[axis], pairs), 3):
            axes[pair] = axis
    return tuple(axes)


def _section(length: Any) -> int:
    if isinstance(length, bool | str | bytes | Sequence | Mapping):
        raise TypeError(f"mrope_section must be integers, got {shown(length)}")
    return _checks.integer("mrope_section", length, least=0)


_FORMULAS: dict[str, Callable[[_Config], Rope]] = {
    "default": _default,
    "linear": _linear,
    "dynamic": _dynamic,
    "yarn": _yarn,
    "longrope": _longrope,
    "llama3": _llama3,
    "proportional": _proportional,
    "axial": _axial,
}
_REQUIRED = {
    "linear": ("factor",),
    "dynamic": ("factor", "max_position_embeddings"),
    "yarn": ("factor", "original_max_position_embeddings"),
    "longrope": ("factor", "original_max_position_embeddings", "short_factor", "long_factor"),
    "llama3": (
        "factor",
        "original_max_position_embeddings",
        "low_freq_factor",
        "high_freq_factor",
    ),
}
_SCALING = (
    "rope_theta",
    "factor",
    "alpha",
    "attention_factor",
    "mscale",
    "mscale_all_dim",
    "seq_len",
)
# What `Rotary.from_config` takes as arguments too.
_ARGUMENTS = ("head_dim", "max_position_embeddings", "rope_theta")
