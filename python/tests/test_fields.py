"""Python, C++ and C name the same settings, counters, specs of arrays and options of stores. The tables of C++ are in
src/damacy/batch/fields.h and src/damacy/store/store_fields.h. That these have each member, and that C has each line, is
tested in C++: in fields_test.cpp next to them, and in src/damacy/c/fields_test.cpp."""

import dataclasses
import re
from pathlib import Path

import damacy
from damacy import ArraySpec, Config, Stats, StoreOptions

SOURCES = Path(__file__).parents[2] / "src/damacy"
TABLES = ("batch/fields.h", "store/store_fields.h")
# Fields that are in no table: each interface has its own form of them.
OWN_FORM = {"dtype", "device", "arrays"}


def _names_in_tables(of: str) -> set[str]:
    lines = [line for table in TABLES for line in re.findall(r'"(\w+)", &(\w+)::(\w+)', (SOURCES / table).read_text())]
    assert [(name, member) for name, _, member in lines if name != member] == []
    return {name for name, owner, _ in lines if owner == of}


def test_stats_has_each_counter_of_the_native_library():
    with damacy.Pipeline(Config(batch_size=1, device="cpu")) as pipeline:
        native = pipeline._native.stats()
    assert set(native) == {field.name for field in dataclasses.fields(Stats)}
    assert set(native) == _names_in_tables("Stats")


def test_config_has_each_setting_of_the_native_library():
    fields = set(Config(batch_size=1)._native_fields())
    assert fields == _names_in_tables("Config") | OWN_FORM


def test_store_options_have_each_field_of_the_native_library():
    fields = [field.name for field in dataclasses.fields(StoreOptions)]
    assert set(fields) == _names_in_tables("StoreOptions")


def test_array_spec_has_each_field_of_the_native_library():
    assert set(ArraySpec()._native()) == _names_in_tables("ArraySpec")
