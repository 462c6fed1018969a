"""Measures one group of cells for one framework in this interpreter; prints JSON. Started by bench.py."""

from __future__ import annotations

import argparse
import gc
import importlib
import importlib.util
import json
import os
import sys
import traceback
import warnings

from kit import NotCovered, chosen


def adapter_module(framework):
    """The adapter's module: from the folder BENCH_ADAPTERS if it has one for this framework, else from `adapters/`."""
    elsewhere = os.path.join(os.environ.get("BENCH_ADAPTERS", ""), f"{framework}_adapter.py")
    if not os.environ.get("BENCH_ADAPTERS") or not os.path.exists(elsewhere):
        return importlib.import_module(f"adapters.{framework}_adapter")
    spec = importlib.util.spec_from_file_location(f"{framework}_adapter", elsewhere)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # annotations of the classes in it are looked up there
    spec.loader.exec_module(module)
    return module


def load_adapter(framework):
    """The framework's adapter, or why there is none."""
    try:
        return adapter_module(framework).Adapter(), None
    except ImportError as missing:
        return None, f"its interpreter has no {missing.name or missing} (set --python {framework}=PATH)"


def measure(adapter, cell):
    gc.collect()
    try:
        return {"value": cell.measure(adapter)}
    except NotCovered as reason:
        return {"skipped": str(reason) or "not covered"}
    except Exception as failure:
        last = traceback.extract_tb(failure.__traceback__)[-1]
        where = f"{os.path.basename(last.filename)}:{last.lineno}"
        return {"error": f"{type(failure).__name__}: {failure}"[:300] + f" ({where})"}


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("framework")
    arguments.add_argument("group")
    arguments.add_argument("--only", default="*")
    options = arguments.parse_args()
    warnings.simplefilter("ignore")
    importlib.import_module(f"workloads.{options.group}")
    adapter, problem = load_adapter(options.framework)
    report = {"problem": problem, "versions": {}, "cells": {}}
    if adapter is not None:
        report["versions"] = {"python": sys.version.split()[0], **adapter.versions()}
        report["cells"] = {cell.name: measure(adapter, cell) for cell in chosen(options.only)}
    print("\n" + json.dumps(report), flush=True)
    os._exit(0)  # a framework's leftover threads must not keep the worker alive


if __name__ == "__main__":
    main()
