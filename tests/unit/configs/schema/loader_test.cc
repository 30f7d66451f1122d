#include "configs/schema/loader.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

namespace tandem::config {
namespace {

// The smallest file; tests put more lines behind it, from line 3 on.
const char kBase[] = "model: {path: /m/tiny.gguf}\npools: {mixed: {}}\n";

std::string error_of(const std::string& text, const std::vector<std::string>& overrides = {}) {
  const Result<Config> config = parse_config(text, "/etc/c.yaml", overrides);
  return config.ok() ? "accepted" : config.error().message;
}

std::string error_after_base(const std::string& more) { return error_of(kBase + more); }

std::string error_of_set(const std::string& override_text) {
  return error_of(kBase, {override_text});
}

Config loaded(const std::string& text, const std::vector<std::string>& overrides = {}) {
  Result<Config> config = parse_config(text, "/etc/c.yaml", overrides);
  EXPECT_TRUE(config.ok()) << (config.ok() ? "" : config.error().message);
  return config.ok() ? std::move(config).value() : Config{};
}

TEST(Loader, FillsDefaultsFromTheSmallestFile) {
  const Config config = loaded(kBase);
  EXPECT_EQ(config.model.path, "/m/tiny.gguf");
  EXPECT_EQ(config.model.alias, "tiny");
  EXPECT_EQ(config.model.max_context, 0);
  EXPECT_EQ(config.coordinator.http.text(), "127.0.0.1:8000");
  EXPECT_EQ(config.coordinator.control_url(), "tcp://127.0.0.1:5700");
  EXPECT_EQ(config.pools.mixed.instances, 1);
  EXPECT_EQ(config.pools.prefill.instances, 0);
  EXPECT_EQ(config.pools.mixed.step_token_budget, 96);
  EXPECT_EQ(config.kv.block_size, 32);
  EXPECT_EQ(config.deadlines.fenced, std::chrono::seconds(3));
  EXPECT_TRUE(config.warnings.empty());
}

TEST(Loader, ReadsEveryKindOfValue) {
  const Config config = loaded(
      "model: {path: sub/m.gguf, alias: \"a \\\"b\\\"\", max_context: 2048}\n"
      "coordinator: {http: \"localhost:0\", control: \"tcp://[::1]:5701\"}\n"
      "pools:\n"
      "  prefill: {instances: 2, ops: reference, threads: 3}\n"
      "  decode: {kv_memory: 2GiB, step_token_budget: 128}\n"
      "kv: {block_size: 16, dtype: f32, prefix_cache: false}\n"
      "deadlines: {heartbeat: 100ms, drain: 2min, stalled_factor: 2.5}\n");
  EXPECT_EQ(config.model.path, "/etc/sub/m.gguf");
  EXPECT_EQ(config.model.alias, "a \"b\"");
  EXPECT_EQ(config.coordinator.http.text(), "127.0.0.1:0");
  EXPECT_EQ(config.coordinator.control.text(), "[::1]:5701");
  EXPECT_EQ(config.pools.prefill.ops, Ops::kReference);
  EXPECT_EQ(config.pools.prefill.threads, 3);
  EXPECT_EQ(config.pools.decode.kv_memory_bytes, int64_t{2} << 30);
  EXPECT_EQ(config.pools.decode.step_token_budget, 128);
  EXPECT_EQ(config.kv.dtype, KvDtype::kF32);
  EXPECT_FALSE(config.kv.prefix_cache);
  EXPECT_EQ(config.deadlines.drain, std::chrono::seconds(120));
  EXPECT_DOUBLE_EQ(config.deadlines.stalled_factor, 2.5);
  EXPECT_EQ(instance_names(config),
            (std::vector<std::string>{"prefill-0", "prefill-1", "decode-0"}));
}

TEST(Loader, ExpandsTheHomeFolder) {
  ASSERT_EQ(setenv("HOME", "/home/ada", 1), 0);
  EXPECT_EQ(loaded("model: {path: ~/m.gguf}\npools: {mixed: {}}\n").model.path,
            "/home/ada/m.gguf");
  EXPECT_EQ(error_of("model: {path: ~bob/m.gguf}\npools: {mixed: {}}\n"),
            "/etc/c.yaml:1: model.path: \"~bob/m.gguf\" names another user's home; write ~/… or "
            "an absolute path");
}

struct BadCase {
  const char* lines;  // from line 3 on
  const char* message;
};

TEST(Loader, RefusesBadInputWithPlaceReasonAndFix) {
  const BadCase cases[] = {
      {"kv: {blok_size: 16}\n", "3: kv.blok_size: unknown key; did you mean block_size?"},
      {"kv: {colour: red}\n",
       "3: kv.colour: unknown key; known here: block_size, dtype, prefix_cache"},
      {"queues: {max_waiting: 1}\n", "3: queues: unknown key; did you mean queue?"},
      {"kv.block_size: 16\n",
       "3: kv.block_size: a dot in a key; write section: {key: value} (dots are for --set)"},
      {"\nkv: {dtype: f32, dtype: bf16}\n",
       "4: key \"dtype\" is already set in line 4; remove one of them"},
      {"model: {path: b}\n", "3: key \"model\" is already set in line 1; remove one of them"},
      {"kv: {block_size: 24}\n", "3: kv.block_size: \"24\" is unknown; write one of 16, 32, 64"},
      {"queue: {max_waiting: 010}\n",
       "3: queue.max_waiting: 010 starts with a zero, which YAML may read as octal; write a whole "
       "number from 1 to 1000000"},
      {"queue: {max_waiting: 0x10}\n",
       "3: queue.max_waiting: \"0x10\" is not a whole decimal number; write a whole number from 1 "
       "to 1000000"},
      {"queue: {max_waiting: 1.5}\n",
       "3: queue.max_waiting: \"1.5\" is not a whole decimal number; write a whole number from 1 "
       "to 1000000"},
      {"queue: {max_waiting: \"7\"}\n",
       "3: queue.max_waiting: \"7\" is text; write a whole number from 1 to 1000000 without "
       "quotes"},
      {"queue: {max_waiting: 0}\n",
       "3: queue.max_waiting: 0 is out of range; write a whole number from 1 to 1000000"},
      {"queue: {max_waiting: -3}\n",
       "3: queue.max_waiting: -3 is out of range; write a whole number from 1 to 1000000"},
      {"queue: {max_waiting: 99999999999999999999}\n",
       "3: queue.max_waiting: 99999999999999999999 is out of range; write a whole number from 1 "
       "to 1000000"},
      {"kv: {prefix_cache: yes}\n",
       "3: kv.prefix_cache: \"yes\" is not a flag; write true or false"},
      {"kv: {prefix_cache: \"true\"}\n",
       "3: kv.prefix_cache: \"true\" is not a flag; write true or false"},
      {"deadlines: {request: 600}\n",
       "3: deadlines.request: duration 600 has no unit; write a whole number and a unit, like "
       "200ms or 3s"},
      {"deadlines: {request: 5h}\n",
       "3: deadlines.request: \"5h\" is not a duration with one of the units min, s, ms, us; "
       "write a whole number and a unit, like 200ms or 3s"},
      {"deadlines: {request: soon}\n",
       "3: deadlines.request: \"soon\" is not a duration; write a whole number and a unit, like "
       "200ms or 3s"},
      {"deadlines: {request: 999999min}\n",
       "3: deadlines.request: 999999min is out of range; write a duration from 1ms to 86400s"},
      {"deadlines: {stalled_factor: .inf}\n",
       "3: deadlines.stalled_factor: \".inf\" is not a number; write a number from 1 to 1000"},
      {"deadlines: {stalled_factor: nan}\n",
       "3: deadlines.stalled_factor: \"nan\" is not a number; write a number from 1 to 1000"},
      {"deadlines: {stalled_factor: 0.5}\n",
       "3: deadlines.stalled_factor: 0.5 is out of range; write a number from 1 to 1000"},
      {"deadlines: {suspect: 4s}\n",
       "3: deadlines.suspect: suspect (4s) must be shorter than fenced (3s); change one of them"},
      {"coordinator: {limits: {max_body: 8MB}}\n",
       "3: coordinator.limits.max_body: \"8MB\" is not a size with one of the units TiB, GiB, MiB, "
       "KiB, B; write a whole number and a unit, like 512MiB"},
      {"coordinator: {limits: {max_body: 8388608}}\n",
       "3: coordinator.limits.max_body: size 8388608 has no unit; write a whole number and a unit, "
       "like 512MiB"},
      {"coordinator: {limits: {max_body: 99999999TiB}}\n",
       "3: coordinator.limits.max_body: \"99999999TiB\" is too large; write a whole number and a "
       "unit, like 512MiB"},
      {"coordinator: {limits: {max_body: 1B}}\n",
       "3: coordinator.limits.max_body: 1B is out of range; write a size from 1KiB to 1GiB"},
      {"coordinator: {http: 8000}\n",
       "3: coordinator.http: \"8000\" is not HOST:PORT; write an address like 127.0.0.1:8000 "
       "(port 0 = any)"},
      {"coordinator: {http: 127.0.0.1:65536}\n",
       "3: coordinator.http: port 65536 is out of range; write a whole number from 0 to 65535"},
      {"coordinator: {http: 0.0.0.0:8000}\n",
       "3: coordinator.http: \"0.0.0.0:8000\" can be reached from other machines, which needs "
       "cluster.secret_file, and that is not yet supported; use 127.0.0.1"},
      {"coordinator: {control: 127.0.0.1:1}\n",
       "3: coordinator.control: \"127.0.0.1:1\" does not start with tcp://; write an address like "
       "tcp://127.0.0.1:8000 (port 0 = any)"},
      {"coordinator: {http: 127.0.0.1:77, control: tcp://127.0.0.1:77}\n",
       "3: coordinator.control: coordinator.http and coordinator.control both use port 77; write "
       "two different ports"},
      {"cluster: {secret_file: s}\n",
       "3: cluster.secret_file: not yet supported: secret_file; remove it and bind loopback "
       "addresses only"},
      {"link: {kind: shm}\n", "3: link.kind: not yet supported: shm; use auto or tcp"},
      {"link: {kind: carrier_pigeon}\n",
       "3: link.kind: \"carrier_pigeon\" is unknown; write one of auto, tcp"},
      {"link: tcp\n",
       "3: link: takes keys, not a value; write {key: value}, or {} for none"},
      {"link:\n", "3: link: takes keys, not a value; write {key: value}, or {} for none"},
      {"link: {kind: }\n", "3: link.kind: has no value; write one or remove the line"},
      {"link: {kind: {a: b}}\n", "3: link.kind: takes a value, not keys"},
      {"link: {kind: [tcp]}\n", "3: a list; no key takes one, write a value or {key: value}"},
      {"link: {kind: &a tcp}\n",
       "3: an anchor (&name); write each value where it is used"},
      {"link: {kind: !!str tcp}\n",
       "3: the tag tag:yaml.org,2002:str; write the plain value"},
      {"---\nkv: {}\n", "4: a second document; write one per file"},
      {"kv: {a: {b: {c: {d: {e: {f: {g: {h: 1}}}}}}}}\n", "3: nested too deeply"},
  };
  for (const BadCase& bad : cases) {
    EXPECT_EQ(error_after_base(bad.lines), std::string("/etc/c.yaml:") + bad.message);
  }
}

TEST(Loader, RefusesWhatIsPlannedForLater) {
  const auto pool = [](const std::string& keys) {
    return error_of("model: {path: /m}\npools: {decode: {" + keys + "}, prefill: {}}\n");
  };
  const std::string start = "/etc/c.yaml:2: pools.decode.";
  EXPECT_EQ(pool("tp: 2"), start + "tp: not yet supported: 2; use 1");
  EXPECT_EQ(pool("pp: 4"), start + "pp: not yet supported: 4; use 1");
  EXPECT_EQ(pool("ep: true"), start + "ep: not yet supported: true; use false");
  EXPECT_EQ(pool("device: cuda"), start + "device: not yet supported: cuda; use cpu");
  EXPECT_EQ(pool("hosts: a"),
            start + "hosts: not yet supported: hosts; remove it: all run on this machine");
  EXPECT_EQ(pool("tp: 1, pp: 1, ep: false, device: cpu"), "accepted");
}

TEST(Loader, NeedsAModelAndPoolsThatCanServe) {
  EXPECT_EQ(error_of("pools: {mixed: {}}\n"),
            "/etc/c.yaml: model.path: missing; write model: {path: FILE.gguf}");
  EXPECT_EQ(error_of(""), "/etc/c.yaml: model.path: missing; write model: {path: FILE.gguf}");
  EXPECT_EQ(error_of("model: {path: m}\n"),
            "/etc/c.yaml: pools: no pool has an instance; write pools: {mixed: {instances: 1}}");
  EXPECT_EQ(error_of("model: {path: m}\npools: {decode: {}}\n"),
            "/etc/c.yaml:2: pools: nothing computes prompts; add a prefill or mixed pool");
  EXPECT_EQ(error_of("model: {path: m}\npools: {prefill: {}, decode: {instances: 0}}\n"),
            "/etc/c.yaml:2: pools: nothing decodes; add a decode or mixed pool");
  EXPECT_EQ(error_of("model: {path: m}\npools: {mixed: {step_token_budget: 32}}\n"),
            "/etc/c.yaml:2: pools.mixed.step_token_budget: 32 leaves no room for a prompt beside "
            "32 decoding sequences; write more than max_sequences");
}

TEST(Loader, RefusesWhatIsNotAYamlMapping) {
  EXPECT_EQ(error_of("just words\n"),
            "/etc/c.yaml:1: not a mapping; write \"key: value\" lines");
  EXPECT_TRUE(error_of("model: {path: m\n").starts_with("/etc/c.yaml:2: not YAML: "));
  EXPECT_EQ(error_of(std::string(2 << 20, '#')),
            "/etc/c.yaml:1: larger than 1 MiB; this is no configuration file");
  EXPECT_NE(error_of(std::string(100'000, '[')), "accepted");
  EXPECT_NE(error_of(std::string("model: {path: \0}", 16)), "accepted");
}

TEST(Loader, OverridesWinInOrder) {
  const Config config =
      loaded(kBase, {"kv.block_size=16", "kv.block_size=64", "pools.prefill.instances=2",
                     "pools.prefill.threads=2", "model.alias=a=b"});
  EXPECT_EQ(config.kv.block_size, 64);
  EXPECT_EQ(config.pools.prefill.instances, 2);
  EXPECT_EQ(config.pools.prefill.threads, 2);
  EXPECT_EQ(config.model.alias, "a=b");
}

TEST(Loader, OverridePathIsRelativeToTheWorkingFolder) {
  char folder[4096];
  ASSERT_NE(getcwd(folder, sizeof folder), nullptr);
  EXPECT_EQ(loaded(kBase, {"model.path=x.gguf"}).model.path, std::string(folder) + "/x.gguf");
}

TEST(Loader, RefusesBadOverridesNamingThem) {
  EXPECT_EQ(error_of_set("kv.block_size"),
            "--set kv.block_size: not key=value; write --set kv.dtype=f32");
  EXPECT_EQ(error_of_set("=3"), "--set =3: not key=value; write --set kv.dtype=f32");
  EXPECT_EQ(error_of_set("kv.blocksize=16"),
            "--set kv.blocksize=16: kv.blocksize: unknown key; did you mean block_size?");
  EXPECT_EQ(error_of_set("pols.mixed.tp=1"),
            "--set pols.mixed.tp=1: pols: unknown key; did you mean pools?");
  EXPECT_EQ(error_of_set("kv.dtype.x=1"),
            "--set kv.dtype.x=1: kv.dtype: takes a value, not keys");
  EXPECT_EQ(error_of_set("kv=1"),
            "--set kv=1: kv: is a section; set one of its keys: block_size, dtype, prefix_cache");
  EXPECT_EQ(error_of_set("kv.block_size=17"),
            "--set kv.block_size=17: kv.block_size: \"17\" is unknown; write one of 16, 32, 64");
  EXPECT_EQ(error_of_set("pools.decode.threads=2"),
            "--set pools.decode.threads=2: pools.decode.threads: the pool is not in /etc/c.yaml; "
            "also give --set pools.decode.instances=1");
}

TEST(Loader, TestingKeysWarn) {
  const Config config =
      loaded(std::string(kBase) + "testing: {logits_digest: true}\n", {"testing.seed=4"});
  EXPECT_TRUE(config.testing.logits_digest);
  EXPECT_TRUE(config.testing.verify_blocks);
  EXPECT_EQ(config.warnings,
            (std::vector<std::string>{
                "/etc/c.yaml:3: testing.logits_digest is set: for tests only",
                "--set testing.seed=4: testing.seed is set: for tests only"}));
}

TEST(Loader, MissingFileSaysSo) {
  const Result<Config> config = load_config("/nowhere/c.yaml", {});
  ASSERT_FALSE(config.ok());
  EXPECT_EQ(config.error().message,
            "/nowhere/c.yaml: no such file; give the cluster's YAML file, such as "
            "configs/local.yaml");
}

TEST(InstanceNames, AreFoundByName) {
  const Config config = loaded("model: {path: m}\npools: {prefill: {}, decode: {threads: 2}}\n");
  EXPECT_EQ(pool_of(config, "decode-0").threads, 2);
  EXPECT_EQ(find_instance(config, "prefill-0")->role, Role::kPrefill);
  const Result<InstanceName> unknown = find_instance(config, "decode-1");
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.error().message,
            "no instance \"decode-1\" in /etc/c.yaml; it has prefill-0, decode-0");
}

}  // namespace
}  // namespace tandem::config
