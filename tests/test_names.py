"""Words that the library has given up, and the order of its modules and of what the kernels index."""

import ast
import graphlib
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import posenc

ROOT = Path(__file__).parents[1]
PACKAGE = Path(posenc.__file__).parent
SOURCES = ROOT / "src"
in_the_source_tree = pytest.mark.skipif(
    not (SOURCES / "_core.pyx").exists(), reason="reads the sources, which are not here"
)

# What must not come back, as a regular expression, and what is written instead.
RETIRED = {
    # one word for several ideas
    r"\bclass _?Encoder\b|\b_encoder\b|\.encoder\b": "Plan, _plan",
    r"\.turns\b": "quarter_turns",
    r"\bturn_\w+": "rotate_* for rotary embeddings, add_angles for rows",
    r"\.limit\b": "max_position",
    r"\bpaired\b": "interleaved",
    r"\b_?(MOST|LEAST)_[A-Z]": "MAX_*, MIN_*",
    r"\b_recent\b": "_cache",
    r"\bhalve\b": "veltkamp_split",
    r"\bplain_halves\b": "kernel_bits",
    r"\b_halves\.h\b": "formats.h",
    r"spill": "a staging row",
    r"\bwrite_(as|all|to|run|runs|rows|window|parts)\b": "store_row, or the walk by its name",
    r"\b_?NEAR\b": "ANCHOR_SPACING",
    r"\b_odd\b": "widths of the plan",
    r"\b_workers\b|\brun_views\b": "_pieces",
    # participles and other words that hide what a function does
    r"\bwhole_lines\b": "align_up",
    r"\bmagnets?\b": "round_bias",
    r"\badd_at_once\b": "try_add",
    r"\blooked_up\b": "gathered",
    r"\b_tiles\((plan\b|$)": "the tiles that the kernels make",
    r"\bplain_target\b|\bTarget whole\b": "unmerged",
    r"\bbatches\(|\b_merged\((a|array)\b|\bas_strided\(": "the kernels' own walk over leading axes",
    r"\battention=|\.attention\b": "attention_factor",
    r"\b_arrays\.(beside|apart|spread|addend|embeddings|switches|working|plain_halves|streams"
    r"|positions|start|width|vector|indices|within|rounded|batches|places|few_axes|items|integers"
    r"|output|result|addressable|plain)\b": "a verb that says what is checked",
    r"\bdef (beside|apart|spread|addend|switches|streams|working|within|rounded|tabulate)\(": "a "
    "verb that says it, such as require_disjoint",
    # home-made terms, of which the field has its own
    r"past the caches": "non-temporal (streaming) stores",
    r"asked for ahead|asks for ahead": "prefetched",
    r"addition theorems": "angle addition",
    r"look(s|ed)? at signals": "check for signals",
}


def texts() -> Iterator[tuple[str, str]]:
    """The sources and the pages for readers, each with its path."""
    files = [
        file for kind in ("py", "pyi", "pyx", "pxi", "h") for file in SOURCES.rglob(f"*.{kind}")
    ]
    files += [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    for file in files:
        yield str(file.relative_to(ROOT)), file.read_text(encoding="utf-8")


def uses(word: str, text: str) -> list[str]:
    """The lines with a retired word."""
    return [line.strip() for line in text.splitlines() if re.search(word, line)]


@in_the_source_tree
@pytest.mark.parametrize("word", RETIRED, ids=RETIRED.values())
def test_words_that_were_given_up_do_not_come_back(word: str) -> None:
    found = {path: lines for path, text in texts() if (lines := uses(word, text))}
    assert not found, f"write {RETIRED[word]}"


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("cdef void write_rows(char *out)", "cdef void store_row(char *out)"),
        ("real *spill, const Run *run", "real *staging, const Run *run"),
        ("void turn_float_as(float *out)", "void rotate_float(float *out)"),
        ("Rotary(8, attention=1.2)", "Rotary(8, attention_factor=1.2)"),
        ("from . import _arrays, _workers", "from . import _arrays, _pieces"),
        ("_MOST_BYTES = 2**63 - 1", "MAX_AXES = 32, at MOST_ and at least"),
        ("return _recent.get(key, make)", "the most recently used last"),
        ("class Encoder(NamedTuple):", "class TransformerEncoder:"),
        ("anchor = NEAR * round(p / NEAR)", "NEAREST, LINEAR"),
        (
            "out, x = _arrays.beside(out, x)",
            "where it returns, beside (or apart from) arrays.start",
        ),
    ],
)
def test_retired_words_are_found_as_names_and_not_within_others(wrong: str, right: str) -> None:
    assert not [word for word in RETIRED if uses(word, right)]
    assert len([word for word in RETIRED if uses(word, wrong)]) == 1


# Modules may import those of their own layer, where there is no circle, and of those below.
LAYERS: list[set[str]] = [
    {"__main__"},
    {"__init__"},
    {"_config", "bias", "grid", "learned", "positions", "relative", "rotary", "sinusoidal"},
    {"_blocks", "_fused_add", "_numpy", "_pieces", "_plan", "_planner", "_presets", "_cache"}
    | {"_rope_config", "_rope_models"},
    {"_arrays", "_checks", "_formats", "_frequencies"},
    {"_backend"},
]


def imports() -> dict[str, set[str]]:
    """The modules of the package, and which of each other they import, at once or later."""
    modules = {file.stem for file in PACKAGE.glob("*.py")}
    graph: dict[str, set[str]] = {module: set() for module in modules}
    for module in modules:
        for node in ast.walk(ast.parse((PACKAGE / f"{module}.py").read_text(encoding="utf-8"))):
            names: list[str] = []
            if isinstance(node, ast.ImportFrom) and node.level:
                names = [node.module] if node.module else [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module == "posenc":
                names = ["__init__"]
            elif isinstance(node, ast.Import):
                names = ["__init__" for alias in node.names if alias.name == "posenc"]
            graph[module] |= modules & {name.partition(".")[0] for name in names}
    return graph


def test_imports_run_one_way() -> None:
    graph = imports()
    layer = {module: i for i, modules in enumerate(LAYERS) for module in modules}
    assert not set(graph) - set(layer), "modules that are in no layer"
    up = [(a, b) for a, below in graph.items() for b in below if layer[a] > layer[b]]
    assert not up
    assert len([*graphlib.TopologicalSorter(graph).static_order()]) == len(graph)


def enumerators(text: str) -> list[dict[str, int]]:
    """The members of every `cdef enum` and their values."""
    found = []
    for block in re.findall(r"^cdef enum[^\n]*:\n((?:[ \t]+[^\n]*\n|\n)+)", text, re.MULTILINE):
        members: dict[str, int] = {}
        code = ",".join(line.partition("#")[0] for line in block.splitlines())
        for member in filter(str.strip, code.split(",")):
            name, _, value = (part.strip() for part in member.partition("="))
            after = max(members.values(), default=-1) + 1
            members[name] = int(value) if value.isdigit() else after
        found.append(members)
    return found


def compiled_source() -> str:
    files = [*SOURCES.rglob("*.pxi"), *SOURCES.rglob("*.pyx")]
    return "\n".join(file.read_text(encoding="utf-8") for file in files)


def test_members_of_enumerations_are_counted_as_c_does() -> None:
    text = "cdef enum Kind:\n    A, B  # of two\n    C = 7\n    D\n\ncdef enum:\n    E\nf()\n"
    assert enumerators(text) == [{"A": 0, "B": 1, "C": 7, "D": 8}, {"E": 0}]


@in_the_source_tree
def test_the_kernels_index_a_plan_by_the_order_of_its_fields() -> None:
    plan: Any = importlib.import_module("posenc._plan")
    fields = {field.upper(): index for index, field in enumerate(plan.Plan._fields)}
    (members,) = [e for e in enumerators(compiled_source()) if "QUARTER_TURNS" in e]
    members.pop("PLAN_FIELDS", None)  # their number
    assert members == fields


@in_the_source_tree
def test_the_distance_of_anchors_is_the_same_wherever_it_stands() -> None:
    plan: Any = importlib.import_module("posenc._plan")
    compiled = re.findall(r"\bANCHOR_SPACING\s*=\s*(\d+)", compiled_source())
    assert [int(number) for number in compiled] == [plan.ANCHOR_SPACING]
    assigned = [
        file.stem
        for file in PACKAGE.glob("*.py")
        if re.search(r"^ANCHOR_SPACING\b[^=]*=", file.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert assigned == ["_plan"]
