"""The report page: one file, complete, honest about what is missing."""

import json
import re

from samlib import paths
from samlib.report import (
    LAYOUTS,
    TABLE1,
    TABLE3,
    complexity_caption,
    plot_complexity,
    plot_sources,
    plot_table,
    save_figure,
    save_table,
    write_report,
)
from tests.report.synthetic import complexity_frame, not_run, phases_frame, sources_frame, table_frame


def test_a_report_before_any_run_says_what_is_missing():
    page = write_report("smoke").read_text()
    for number in ("02", "03", "04"):
        assert f"Not measured yet: run notebook {number}" in page
    for text in ("Nothing was measured yet", "None was drawn yet", "No manifest was written yet"):
        assert text in page


def test_a_report_holds_table_figures_environment_and_links():
    costs = complexity_frame()
    caption = complexity_caption(costs, "smoke")
    save_figure(plot_complexity(costs), "complexity", "smoke", data=costs, caption=caption)
    save_table(table_frame(), TABLE1, "smoke", "")
    folder = paths.RUNS / "smoke"
    folder.mkdir(parents=True)
    (folder / "02_table1.ipynb").write_text("{}")
    (folder / "manifest_20260101T000000Z.json").write_text(json.dumps({"machine": {"cpu": "old"}}))
    (folder / "manifest_20270101T000000Z.json").write_text(json.dumps({"machine": {"cpu": "A & B <fast>"}}))
    page = write_report("smoke").read_text()
    assert '<a href="02_table1.ipynb">' in page
    assert "<dt>machine.cpu</dt><dd>A &amp; B &lt;fast&gt;</dd>" in page
    assert "<em>1.84</em>" in page and "SAM[T]" in page
    assert caption.split(".")[0] in page
    assert 'name="viewport"' in page


def test_each_table_has_its_grid_cells_shares_and_findings():
    for layout in LAYOUTS:
        shares = {"sources": sources_frame(layout), "phases": phases_frame(layout)}
        save_table(not_run(table_frame(layout), "sam"), layout, "smoke", "", **shares)
    page = write_report("smoke").read_text()
    assert page.count("<summary>Every cell</summary>") == 2 + 2 + 1
    assert page.count("<summary>Share of steps by draft source") == page.count("<summary>Share of time by phase") == 3
    for layout in LAYOUTS:
        assert page.count(f"{layout.title}</h3>") == page.count(f"{layout.title}</h2>") == 1
    assert page.count("<li>Not run: SAM.</li>") == 3
    assert "<td>not run</td>" in page and "<td>SAM[T] without auxiliary</td>" in page and "<td>HAGRID</td>" in page


def test_a_table_without_shares_and_without_the_others_is_shown():
    save_table(table_frame(TABLE3), TABLE3, "smoke", "")
    page = write_report("smoke").read_text()
    assert f"<h2>{TABLE3.title}</h2>" in page and "<h2>Table 1</h2>" in page and "Share of time" not in page


def test_the_tables_figures_come_first_and_in_order():
    costs = complexity_frame()
    save_figure(plot_complexity(costs), "complexity", "smoke", caption="")
    save_figure(plot_sources(sources_frame(), TABLE1), "table1_sources", "smoke", caption="")
    for layout in reversed(LAYOUTS):
        save_figure(plot_table(table_frame(layout), layout), layout.name, "smoke", caption="")
    shown = re.findall(r'alt="([^"]+)"', write_report("smoke").read_text())
    assert shown == ["table1", "table1_sources", "table2", "table3", "complexity"]


def test_the_page_needs_no_other_file_but_the_notebooks():
    costs = complexity_frame()
    save_figure(plot_complexity(costs), "complexity", "smoke", data=costs, caption="x")
    page = write_report("smoke").read_text()
    sources = re.findall(r'(?:src|href)="([^"]+)"', page)
    assert sources and all(source.startswith("data:image/png;base64,") for source in sources)
    assert "http" not in re.sub(r"base64,[^\"]*", "", page)
