#pragma once
// The one configuration of a cluster, as read from its YAML file. Plain values: made once by
// the loader (loader.h), then only read. Defaults are the initialisers here and nowhere else.
// Which keys exist, their ranges and their meaning: knobs.cc, printed by `tandem config`.

#include <cstdint>
#include <string>
#include <vector>

#include "comm/runtime/clock.h"
#include "comm/runtime/result.h"
#include "configs/schema/deadlines.h"

namespace tandem::config {

enum class Role { kPrefill, kDecode, kMixed };
inline constexpr Role kRoles[] = {Role::kPrefill, Role::kDecode, Role::kMixed};
// "prefill", "decode", "mixed".
const char* role_name(Role role);

enum class Device { kCpu, kCuda };
enum class Ops { kAuto, kReference, kAvx2, kAvx512 };
enum class KvDtype { kF32, kBf16 };
enum class LinkKind { kAuto, kTcp, kShm, kNccl };

// A TCP address. port 0 = any free port.
struct Endpoint {
  std::string host;
  uint16_t port = 0;
  std::string text() const;  // "127.0.0.1:8000"; an IPv6 host in brackets
  bool operator==(const Endpoint&) const = default;
};

struct ModelConfig {
  std::string path;      // absolute after loading
  std::string alias;     // name in the API; default: the file's name without ".gguf"
  int max_context = 0;   // tokens; 0 = the model's own length
};

struct HttpLimits {
  int64_t max_body_bytes = int64_t{8} << 20;
  int64_t max_header_bytes = int64_t{32} << 10;
  int max_connections = 4096;
};

struct CoordinatorConfig {
  Endpoint http{"127.0.0.1", 8000};
  Endpoint control{"127.0.0.1", 5700};
  HttpLimits limits;
  std::string control_url() const { return "tcp://" + control.text(); }
};

// One pool: `instances` equal instances of one role. Memory and threads are per rank.
struct PoolConfig {
  int instances = 0;  // a pool named in the file without this key has 1
  int tp = 1;
  int pp = 1;
  bool ep = false;
  Device device = Device::kCpu;
  Ops ops = Ops::kAuto;
  int threads = 1;
  int64_t kv_memory_bytes = int64_t{512} << 20;
  int prefill_chunk = 64;      // tokens of one sequence's prompt per step
  int max_sequences = 32;      // running sequences
  int step_token_budget = 0;   // tokens per step; after loading never 0 (see knobs.cc)
};

struct PoolsConfig {
  PoolConfig prefill;
  PoolConfig decode;
  PoolConfig mixed;
  PoolConfig& of(Role role);
  const PoolConfig& of(Role role) const;
};

struct KvConfig {
  int block_size = 32;  // tokens
  KvDtype dtype = KvDtype::kBf16;
  bool prefix_cache = true;
};

struct LinkConfig {
  LinkKind kind = LinkKind::kAuto;
};

struct RouterConfig {
  std::string policy = "least_loaded";
  int local_prefill_tokens = 0;
};

struct QueueConfig {
  int max_waiting = 1024;
};

// Switches for tests; accepted on loopback only and reported with a warning.
struct TestingConfig {
  bool logits_digest = false;     // digest over each request's logits, in the final chunk
  bool verify_blocks = true;      // false: received blocks are not checked
  int flip_received_block = 0;    // n: flip a bit in the n-th received block; 0 = never
  int64_t slow_link_bytes_per_s = 0;  // 0 = not limited
  uint64_t seed = 0;              // seeds of unseeded requests; 0 = from the operating system
};

struct ClusterConfig {
  std::string secret_file;
};

struct Config {
  ModelConfig model;
  CoordinatorConfig coordinator;
  PoolsConfig pools;
  KvConfig kv;
  LinkConfig link;
  RouterConfig router;
  QueueConfig queue;
  Deadlines deadlines;
  TestingConfig testing;
  ClusterConfig cluster;

  std::string file;                   // the YAML file, as given
  std::vector<std::string> warnings;  // for the log of whoever loaded it
};

// "prefill-0", "prefill-1", "decode-0", …: by role in the order of kRoles, then by index.
std::vector<std::string> instance_names(const Config& config);

struct InstanceName {
  Role role = Role::kMixed;
  int index = 0;
};
// kNotFound with the known names when `name` is not an instance of this configuration.
Result<InstanceName> find_instance(const Config& config, const std::string& name);

// The pool of an instance. Requires: find_instance(config, name) is ok.
const PoolConfig& pool_of(const Config& config, const std::string& name);

// Spelling of the enumerators in the file.
const char* device_name(Device device);
const char* ops_name(Ops ops);
const char* kv_dtype_name(KvDtype dtype);
const char* link_kind_name(LinkKind kind);

}  // namespace tandem::config
