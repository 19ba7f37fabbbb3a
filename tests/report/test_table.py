from rebll_avalanche.report.groups import settings_of
from rebll_avalanche.report.runs import read_runs
from rebll_avalanche.report.table import setting_table, thresholds


def cells_of(table, label):
    (row,) = (row for row in table.rows if row.group.label == label)
    return list(row.cells.values())


def test_columns_are_those_of_the_paper(setting):
    table = setting_table(setting)
    assert [(title, [column.title for column in columns]) for title, columns in table.blocks] == [
        ("Last, scores above 0.8", ["mAP", "CF1", "OF1", "FPR"]),
        ("Last, scores above 0.5", ["CF1", "OF1", "FPR"]),
        ("Avg", ["mAP"]),
    ]
    assert thresholds(setting) == ["0.8", "0.5"]


def test_cells_are_percent_with_the_deviation_over_seeds(setting):
    table = setting_table(setting)
    first = cells_of(table, "LwF")[0]
    spread = next(group for group in setting.groups if group.label == "LwF").last("mAP")
    assert (first.mean, first.std) == (f"{100 * spread.mean:.1f}", f"{100 * spread.std:.1f}")
    assert cells_of(table, "Joint")[0].std == ""


def test_the_best_is_marked_among_competitors_and_low_is_good_for_false_positives(setting):
    table = setting_table(setting)
    assert cells_of(table, "RebLL (AKD + OR)")[0].best
    assert not any(cell.best for cell in cells_of(table, "Joint"))
    rates = {row.group.label: row.cells["FPR@0.5"] for row in table.rows if not row.group.ceiling}
    lowest = min(float(cell.mean) for cell in rates.values())
    assert {label for label, cell in rates.items() if cell.best} == {
        label for label, cell in rates.items() if float(cell.mean) == lowest
    }


def test_one_experiment_is_not_the_best_of_one(write_run, tmp_path):
    write_run(tmp_path / "a", "lwf")
    (setting,) = settings_of(read_runs([tmp_path])[0])
    assert not any(cell.best for cell in cells_of(setting_table(setting), "LwF"))


def test_unfinished_runs_say_so(write_run, tmp_path):
    write_run(tmp_path / "a", "lwf", steps=4)
    write_run(tmp_path / "b", "er")
    write_run(tmp_path / "c", "joint")
    (setting,) = settings_of(read_runs([tmp_path])[0])
    notes = {row.group.label: row.note for row in setting_table(setting).rows}
    assert notes == {"LwF": "4 of 6 experiences", "ER": "", "Joint": ""}
