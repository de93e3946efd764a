"""The report page: one file, complete, honest about what is missing."""

import json
import re

from samlib import paths
from samlib.report import complexity_caption, plot_complexity, save_figure, save_table1, write_report
from tests.report.synthetic import complexity_frame, table1_frame


def test_a_report_before_any_run_says_what_is_missing():
    page = write_report("smoke").read_text()
    for text in ("Nothing was measured yet", "run notebook 02", "None was drawn yet", "No manifest was written yet"):
        assert text in page


def test_a_report_holds_table_figures_environment_and_links():
    costs = complexity_frame()
    caption = complexity_caption(costs, "smoke")
    save_figure(plot_complexity(costs), "complexity", "smoke", data=costs, caption=caption)
    save_table1(table1_frame(), "smoke", "")
    folder = paths.RUNS / "smoke"
    folder.mkdir(parents=True)
    (folder / "02_table1.ipynb").write_text("{}")
    (folder / "manifest_20260101T000000Z.json").write_text(json.dumps({"machine": {"cpu": "old"}}))
    (folder / "manifest_20270101T000000Z.json").write_text(json.dumps({"machine": {"cpu": "A & B <fast>"}}))
    page = write_report("smoke").read_text()
    assert '<a href="02_table1.ipynb">' in page
    assert "<dt>machine.cpu</dt><dd>A &amp; B &lt;fast&gt;</dd>" in page
    assert "<em>1.93</em>" in page and "SAM[T]" in page
    assert caption.split(".")[0] in page
    assert 'name="viewport"' in page


def test_the_page_needs_no_other_file_but_the_notebooks():
    costs = complexity_frame()
    save_figure(plot_complexity(costs), "complexity", "smoke", data=costs, caption="x")
    page = write_report("smoke").read_text()
    sources = re.findall(r'(?:src|href)="([^"]+)"', page)
    assert sources and all(source.startswith("data:image/png;base64,") for source in sources)
    assert "http" not in re.sub(r"base64,[^\"]*", "", page)
