"""The report on made-up results: what its tables would hide if it were wrong."""

import report

GROUP = "Sinusoidal(d).add (8, 2048, 1024) float32"
ROWS = {
    "posenc avx2": [4e-3, 2e-3, 2e-3],
    "np.copyto": [2e-3, 1e-3, 1e-3],
    "kept table": [3e-3, 1e-3, 1.6e-3],
    "torch": [8e-3, 3e-3, 4e-3],
}


def column(processor: str, **rows: list[float]) -> report.Column:
    calls = {"Additions": {GROUP: rows}}
    return report.Column({"processor": processor, "commit": "abc", "calls": calls}, "avx2")


def bench_a_loss_is_bold_and_a_floor_is_not() -> None:
    assert report.cell(ROWS, "kept table", "posenc avx2") == "**0.75**"
    assert report.cell(ROWS, "np.copyto", "posenc avx2") == "0.5"
    assert report.cell(ROWS, "torch", "posenc avx2") == "2"


def bench_each_processor_has_a_column_that_names_it() -> None:
    alone = {name: ROWS[name] for name in ("posenc avx2", "torch")}
    columns = [column("One", **ROWS), column("Two", **alone)]
    head, _, times, _, kept, _ = report.table(columns, "Additions").splitlines()
    assert head == "| work | beside | AVX2<br>One<br>abc | AVX2<br>Two<br>abc |"
    assert times == f"| {GROUP} |  | 2 ms | 2 ms |"
    assert kept == "|  | kept table | **0.75** |  |"  # not measured on the other


def bench_a_ratio_is_the_median_of_those_of_the_passes() -> None:
    """Not the ratio of medians, between which the machine may have changed."""
    rows = {"posenc avx2": [1.0, 10.0, 100.0], "torch": [100.0, 20.0, 200.0]}
    assert report.ratio(rows, "torch", "posenc avx2") == 2.0
