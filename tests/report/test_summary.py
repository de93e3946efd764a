"""What a run prints at its end: each of the paper's tables that was among its notebooks, in short."""

from types import SimpleNamespace

from samlib import paths
from samlib.bench.profiles import load_profile
from samlib.cli import plan
from samlib.cli.run import summary
from samlib.report import LAYOUTS, TABLE2, save_table
from tests.report.synthetic import not_run, table_frame


def job(number):
    """What `summary` reads of a job."""
    figures = paths.figures_dir("smoke")
    files = [figures / name for name in plan.FIGURES[number]]
    return SimpleNamespace(figures=figures, runs=paths.runs_dir("smoke"), figure_files=files)


def test_the_plan_asks_for_the_files_of_each_table():
    for layout in LAYOUTS:
        names = {f"{layout.name}.md"}
        names |= {
            f"{layout.name}{part}.{kind}" for part in ("", "_sources", "_phases") for kind in ("csv", "pdf", "png")
        }
        assert set(plan.FIGURES[layout.notebook]) == names


def test_each_table_among_the_jobs_is_printed_in_order_with_its_path():
    for layout in LAYOUTS:
        save_table(not_run(table_frame(layout), "pld"), layout, "smoke", "")
    text = summary([job(number) for number in ("00", "02", "03", "04")], load_profile("smoke"))
    assert text.index("Table 1: ") < text.index("Table 2: ") < text.index("Table 3: ") < text.index("figures:")
    assert all(f"{layout.name}.md)\n" in text for layout in LAYOUTS)
    tables = text[: text.index("figures:")].splitlines()
    assert max(len(line) for line in tables if not line.startswith("(every cell")) < 100
    assert text.count("  PLD ") == 2 + 2 and "not run" in text


def test_a_table_of_another_job_is_not():
    for layout in LAYOUTS:
        save_table(table_frame(layout), layout, "smoke", "")
    text = summary([job("03")], load_profile("smoke"))
    assert TABLE2.title in text and "Table 1" not in text and "Table 3" not in text
