#!/usr/bin/env python3
"""Adds up the results of tests/run.sh: summary.py RESULTS STAGE…

Counts test cases where the program tells them (GoogleTest's XML, unittest's last lines), else
programs. Prints what failed, what was skipped and why, and ends with one line of totals.
"""
import pathlib
import re
import sys
import xml.etree.ElementTree as xml


class Totals:
    def __init__(self):
        self.passed = 0
        self.failed = []   # names
        self.skipped = []  # (name, reason)


def add_gtest(path, program, totals):
    """Counts one GoogleTest report."""
    for case in xml.parse(path).getroot().iter("testcase"):
        name = f"{program}: {case.get('classname')}.{case.get('name')}"
        skipped = case.find("skipped")
        if case.find("failure") is not None:
            totals.failed.append(name)
        elif skipped is not None:
            lines = (skipped.get("message") or "").strip().splitlines()
            totals.skipped.append((name, " ".join(lines[1:]) or "no reason given"))
        elif case.get("result") != "suppressed" and case.get("status") == "run":
            totals.passed += 1


def add_unittest(output, program, totals):
    """Counts a unittest or pytest run by its closing lines; returns whether it was one."""
    ran = re.findall(r"^Ran (\d+) tests? in", output, re.M)
    if not ran:
        return False
    number = {kind: sum(int(n) for n in re.findall(rf"{kind}=(\d+)", output.rsplit("Ran ", 1)[1]))
              for kind in ("failures", "errors", "skipped")}
    bad = number["failures"] + number["errors"]
    totals.passed += max(0, int(ran[-1]) - bad - number["skipped"])
    for name in re.findall(r"^(?:FAIL|ERROR): (\S+)", output, re.M)[:bad]:
        totals.failed.append(f"{program}: {name}")
    for name, reason in re.findall(r"^(\w+) .*\.\.\. skipped ['\"](.*)['\"]$", output, re.M):
        totals.skipped.append((f"{program}: {name}", reason))
    return True


def add_program(case, stage_folder, totals):
    """Counts one program that ctest ran."""
    program = case.get("name")
    status = case.get("status")  # run, fail, disabled, notrun
    failed_before = len(totals.failed)
    report = stage_folder / "gtest" / f"{program}.xml"
    output = case.findtext("system-out") or ""
    if status not in ("run", "fail"):
        totals.failed.append(f"{program} (not run)")
        return
    if report.exists():
        add_gtest(report, program, totals)
    elif not add_unittest(output, program, totals) and status == "run":
        totals.passed += 1
    if status == "fail" and len(totals.failed) == failed_before:
        totals.failed.append(f"{program} (crashed, timed out or found an error at its end)")


def add_stage(folder, stage, totals):
    if (folder / "skipped").exists():
        totals.skipped.append((f"stage {stage}", (folder / "skipped").read_text().strip()))
        return
    if (folder / "build_failed").exists():
        totals.failed.append(f"stage {stage}: the build failed")
        return
    report = folder / "ctest.xml"
    if not report.exists():
        totals.failed.append(f"stage {stage}: ctest wrote no report")
        return
    for case in xml.parse(report).getroot().iter("testcase"):
        add_program(case, folder, totals)


def main():
    results, stages = pathlib.Path(sys.argv[1]), sys.argv[2:]
    totals = Totals()
    for stage in stages:
        before = totals.passed, len(totals.failed), len(totals.skipped)
        add_stage(results / stage, stage, totals)
        print(f"stage {stage}: {totals.passed - before[0]} passed, "
              f"{len(totals.failed) - before[1]} failed, "
              f"{len(totals.skipped) - before[2]} skipped")
    for name, reason in totals.skipped:
        print(f"skipped: {name}: {reason}")
    for name in totals.failed:
        print(f"FAILED: {name}")
    print(f"{totals.passed} passed, {len(totals.failed)} failed, {len(totals.skipped)} skipped")
    sys.exit(1 if totals.failed or totals.passed == 0 else 0)


if __name__ == "__main__":
    main()
