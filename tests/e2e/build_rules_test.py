#!/usr/bin/env python3
"""The build refuses dependencies that are not declared, or declared against the arrows.

Works on a copy of the source tree. Uses the standard library only.
"""
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["TANDEM_SOURCE_DIR"])


class BuildRulesTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="tandem-rules-"))
        self.tree = self.folder / "tree"
        shutil.copytree(SOURCE, self.tree, symlinks=True,
                        ignore=shutil.ignore_patterns("build", ".git"))

    def tearDown(self):
        shutil.rmtree(self.folder)

    def edit(self, path, old, new):
        text = (self.tree / path).read_text()
        self.assertIn(old, text)
        (self.tree / path).write_text(text.replace(old, new, 1))

    def run_tool(self, *command):
        done = subprocess.run(command, cwd=self.tree, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False)
        return done.returncode, done.stdout

    def configure(self):
        return self.run_tool("cmake", "--preset", "release")

    def build(self, *targets):
        return self.run_tool("ninja", "-C", "build/release", "-j2", *targets)

    def configure_and_build(self, *targets):
        status, output = self.configure()
        self.assertEqual(status, 0, output)
        return self.build(*targets)

    def test_the_tree_as_it_is_passes(self):
        status, output = self.configure_and_build("tandem_comm_runtime_whole",
                                                  "tandem_configs_schema_includes")
        self.assertEqual(status, 0, output)

    def test_including_a_header_of_an_undeclared_module_fails(self):
        self.edit("configs/schema/config.h", '#include "comm/runtime/clock.h"',
                  '#include "comm/runtime/clock.h"\n#include "comm/wire/limits.h"')
        status, output = self.configure_and_build("tandem_configs_schema_includes")
        self.assertNotEqual(status, 0)
        self.assertIn("undeclared dependency of configs/schema", output)
        self.assertIn('configs/schema/config.h: includes "comm/wire/limits.h"', output)

    def test_a_header_of_an_undeclared_module_is_not_even_found(self):
        self.edit("comm/runtime/result.cc", '#include "comm/runtime/result.h"',
                  '#include "comm/runtime/result.h"\n#include <configs/schema/config.h>')
        status, output = self.configure_and_build("tandem_comm_runtime")
        self.assertNotEqual(status, 0)
        self.assertIn("configs/schema/config.h: No such file or directory", output)

    def test_using_a_symbol_of_an_undeclared_module_fails(self):
        self.edit("comm/runtime/result.cc", "namespace tandem {",
                  "namespace tandem::config { enum class Role; const char* role_name(Role); }\n"
                  "namespace tandem {\n"
                  "const char* leak() { return config::role_name(config::Role{}); }\n")
        status, output = self.configure_and_build("tandem_comm_runtime_whole")
        self.assertNotEqual(status, 0)
        self.assertIn("undefined reference to `tandem::config::role_name", output)

    def test_declaring_a_dependency_against_the_arrows_fails(self):
        self.edit("comm/runtime/CMakeLists.txt", "HDRS", "DEPS configs/schema HDRS")
        status, output = self.configure()
        self.assertNotEqual(status, 0)
        self.assertIn("dependency direction: comm/runtime must not depend on configs/schema",
                      " ".join(output.split()))


if __name__ == "__main__":
    unittest.main(verbosity=2)
