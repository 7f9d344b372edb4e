"""Finds the rows: every module rows_*.py of this package has ROWS, a list, and ORDER, its place."""

import importlib
import pathlib
import pkgutil


def all_rows():
    """In the order of the table. AssertionError when a name is there twice."""
    folder = pathlib.Path(__file__).parent
    modules = [importlib.import_module(f"{__package__}.{found.name}")
               for found in pkgutil.iter_modules([str(folder)]) if found.name.startswith("rows_")]
    rows = [row for module in sorted(modules, key=lambda m: (m.ORDER, m.__name__))
            for row in module.ROWS]
    names = [row.name for row in rows]
    assert len(set(names)) == len(names), f"two rows of one name: {names}"
    return rows
