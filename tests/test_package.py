"""``synib.read``, ``Table``, ``audit``, ``fit`` and ``load``: there, and imported when they are first used."""

import subprocess
import sys

import pytest

import synib


def test_what_a_user_does_with_data_is_reachable_from_the_package():
    from synib.own.audit import audit
    from synib.own.fit import fit
    from synib.own.saved import load
    from synib.own.table import Table, read

    names = (synib.audit, synib.fit, synib.load, synib.read, synib.Table)
    assert names == (audit, fit, load, read, Table)
    assert {"audit", "fit", "load", "read", "Table", "SynIB"} <= set(dir(synib))
    with pytest.raises(AttributeError, match="has no attribute 'reed'"):
        _ = synib.reed


def test_nothing_of_it_is_imported_before():
    code = (
        "import sys, synib; before = 'synib.own' in sys.modules; synib.read; print(before, 'synib.own' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]
