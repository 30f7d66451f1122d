#!/usr/bin/env python3
"""The documents name what the code has: every message, deadline and file."""
import os
import pathlib
import re
import unittest

SOURCE = pathlib.Path(os.environ["TANDEM_SOURCE_DIR"])


def read(path):
    return (SOURCE / path).read_text()


def section(text, title):
    """The text under a heading, up to the next of its level."""
    level = title.split(" ")[0]
    rest = text.split(f"\n{title}\n", 1)[1]
    return rest.split(f"\n{level} ", 1)[0]


def first_cells(text):
    return [row.split("|")[1] for row in text.splitlines() if row.startswith("|")]


class DocsTest(unittest.TestCase):
    def test_every_control_message_has_a_row(self):
        envelope = re.search(r"message Envelope \{.*?oneof body \{(.*?)\}",
                             read("comm/wire/control.proto"), re.S)[1]
        names = re.findall(r"^\s*(\w+) \w+ = \d+;", envelope, re.M)
        self.assertGreater(len(names), 20)
        table = section(read("docs/PROTOCOL.md"), "## Control messages")
        rows = " ".join(first_cells(table))
        self.assertEqual([name for name in names if not re.search(rf"\b{name}\b", rows)], [])

    def test_every_link_message_has_a_row(self):
        names = re.findall(r"^message (\w+)", read("comm/wire/link.proto"), re.M)
        rows = " ".join(first_cells(section(read("docs/PROTOCOL.md"), "## The KV link")))
        self.assertEqual([name for name in names if not re.search(rf"\b{name}\b", rows)], [])

    def test_deadlines_have_their_defaults(self):
        declared = dict(re.findall(r"^  Duration (\w+) = std::chrono::(\w+\(\d+\));",
                                   read("configs/schema/deadlines.h"), re.M))
        units = {"milliseconds": "ms", "seconds": "s"}
        rows = dict(re.findall(r"^\| `(\w+)` \| (\w+) \|",
                               section(read("docs/PROTOCOL.md"), "## Deadlines and leases"), re.M))
        for key, value in declared.items():
            unit, number = re.match(r"(\w+)\((\d+)\)", value).groups()
            self.assertEqual(rows.get(key), number + units[unit], f"deadlines.{key}")
        self.assertEqual(set(rows) - set(declared), {"stalled_factor"})

    def test_links_lead_somewhere(self):
        for path in [SOURCE / "README.md", *sorted((SOURCE / "docs").rglob("*.md"))]:
            for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", path.read_text()):
                if not target.startswith("http"):
                    self.assertTrue((path.parent / target).exists(), f"{path}: {target}")

    def test_named_files_exist(self):
        for path in [SOURCE / "README.md", *sorted((SOURCE / "docs").rglob("*.md"))]:
            for name in re.findall(r"`((?:\w+/)+\w+\.(?:h|cc|proto|cmake|py|sh|yaml))`",
                                   path.read_text()):
                self.assertTrue((SOURCE / name).exists(), f"{path}: {name}")


if __name__ == "__main__":
    unittest.main(verbosity=2)
