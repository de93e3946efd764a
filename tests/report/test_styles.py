"""One fixed look a method."""

import samlib
from samlib.bench.data import TASKS
from samlib.report.styles import METHOD_STYLES, TASK_LABELS
from samlib.report.tables import REFERENCE_METHODS, TABLE1_METHODS


def test_every_method_has_a_style():
    assert set(samlib.METHODS) <= set(METHOD_STYLES)
    assert set(TABLE1_METHODS + REFERENCE_METHODS) <= set(METHOD_STYLES)


def test_no_two_methods_look_alike_even_in_grey():
    looks = list(METHOD_STYLES.values())
    assert len({look.label for look in looks}) == len(looks)
    assert len({look.marker for look in looks}) == len(looks)


def test_every_task_has_a_label_in_the_benchmarks_order():
    assert tuple(TASK_LABELS) == (*TASKS, "overall")
