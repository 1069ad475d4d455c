"""Python, C++ and C name the same settings and counters: src/damacy/batch/fields.h has the tables of C++ and C."""

import dataclasses
import re
from pathlib import Path

import damacy
from damacy import Config, Stats

TABLES = Path(__file__).parents[2] / "src/damacy/batch/fields.h"
# Fields that are in no table: each interface has its own form of them.
OWN_FORM = {"dtype", "device", "arrays"}


def _names_in_tables(of: str) -> set[str]:
    return {name for name, member in re.findall(r'"(\w+)", &(\w+)::', TABLES.read_text()) if member == of}


def test_stats_has_each_counter_of_the_native_library():
    with damacy.Pipeline(Config(batch_size=1, device="cpu")) as pipeline:
        native = pipeline._native.stats()
    assert set(native) == {field.name for field in dataclasses.fields(Stats)}
    assert set(native) == _names_in_tables("Stats")


def test_config_has_each_setting_of_the_native_library():
    fields = set(Config(batch_size=1)._native_fields())
    assert fields == _names_in_tables("Config") | OWN_FORM
