#include "configs/schema/config.h"

#include "comm/runtime/check.h"

namespace tandem::config {

const char* role_name(Role role) {
  switch (role) {
    case Role::kPrefill: return "prefill";
    case Role::kDecode: return "decode";
    case Role::kMixed: return "mixed";
  }
  return "?";
}

const char* device_name(Device device) {
  switch (device) {
    case Device::kCpu: return "cpu";
    case Device::kCuda: return "cuda";
  }
  return "?";
}

const char* ops_name(Ops ops) {
  switch (ops) {
    case Ops::kAuto: return "auto";
    case Ops::kReference: return "reference";
    case Ops::kAvx2: return "avx2";
    case Ops::kAvx512: return "avx512";
  }
  return "?";
}

const char* kv_dtype_name(KvDtype dtype) {
  switch (dtype) {
    case KvDtype::kF32: return "f32";
    case KvDtype::kBf16: return "bf16";
  }
  return "?";
}

const char* link_kind_name(LinkKind kind) {
  switch (kind) {
    case LinkKind::kAuto: return "auto";
    case LinkKind::kTcp: return "tcp";
    case LinkKind::kShm: return "shm";
    case LinkKind::kNccl: return "nccl";
  }
  return "?";
}

std::string Endpoint::text() const {
  const bool is_ipv6 = host.find(':') != std::string::npos;
  return (is_ipv6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

const PoolConfig& PoolsConfig::of(Role role) const {
  switch (role) {
    case Role::kPrefill: return prefill;
    case Role::kDecode: return decode;
    case Role::kMixed: return mixed;
  }
  return mixed;
}

PoolConfig& PoolsConfig::of(Role role) {
  return const_cast<PoolConfig&>(std::as_const(*this).of(role));
}

std::vector<std::string> instance_names(const Config& config) {
  std::vector<std::string> names;
  for (const Role role : kRoles) {
    for (int i = 0; i < config.pools.of(role).instances; ++i) {
      names.push_back(std::string(role_name(role)) + "-" + std::to_string(i));
    }
  }
  return names;
}

Result<InstanceName> find_instance(const Config& config, const std::string& name) {
  std::string known;
  for (const Role role : kRoles) {
    for (int i = 0; i < config.pools.of(role).instances; ++i) {
      const std::string candidate = std::string(role_name(role)) + "-" + std::to_string(i);
      if (candidate == name) return InstanceName{role, i};
      known += (known.empty() ? "" : ", ") + candidate;
    }
  }
  return Error{ErrorCode::kNotFound,
               "no instance \"" + name + "\" in " + config.file + "; it has " + known, "instance"};
}

const PoolConfig& pool_of(const Config& config, const std::string& name) {
  const Result<InstanceName> found = find_instance(config, name);
  CHECK(found.ok());
  return config.pools.of(found->role);
}

}  // namespace tandem::config
