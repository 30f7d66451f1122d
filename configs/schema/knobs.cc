#include "configs/schema/knobs.h"

#include <type_traits>
#include <utility>

namespace tandem::config {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int64_t kKiB = int64_t{1} << 10;
constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kGiB = int64_t{1} << 30;
constexpr int64_t kTiB = int64_t{1} << 40;

// How a knob finds its place: T& (Config&, Role). Ignores the role outside of pools.
template <typename T>
using Place = T& (*)(Config&, Role);

template <typename T, typename Parse, typename Format>
Knob make_knob(std::string key, std::string type, std::string range, std::string meaning,
               Place<T> place, Parse parse, Format format) {
  Knob knob;
  knob.key = std::move(key);
  knob.type = std::move(type);
  knob.range = std::move(range);
  knob.meaning = std::move(meaning);
  knob.set = [place, parse](Config& config, Role role, const Scalar& scalar) -> Status {
    auto value = parse(scalar);
    if (!value.ok()) return value.error();
    place(config, role) = static_cast<T>(std::move(value).value());
    return {};
  };
  knob.get = [place, format](const Config& config, Role role) {
    return format(std::as_const(place(const_cast<Config&>(config), role)));
  };
  return knob;
}

std::string to_range(const std::string& min, const std::string& max) {
  return min + " to " + max;
}

template <typename T>
Knob integer(std::string key, Place<T> place, int64_t min, int64_t max, std::string meaning) {
  return make_knob<T>(
      std::move(key), "integer", to_range(std::to_string(min), std::to_string(max)),
      std::move(meaning), place, [=](const Scalar& s) { return parse_integer(s, min, max); },
      [](T value) { return std::to_string(value); });
}

Knob number(std::string key, Place<double> place, double min, double max, std::string meaning) {
  return make_knob<double>(
      std::move(key), "number", to_range(format_number(min), format_number(max)),
      std::move(meaning), place, [=](const Scalar& s) { return parse_number(s, min, max); },
      [](double value) { return format_number(value); });
}

Knob flag(std::string key, Place<bool> place, std::string meaning) {
  return make_knob<bool>(std::move(key), "flag", "true, false", std::move(meaning), place,
                         [](const Scalar& s) { return parse_flag(s); },
                         [](bool value) { return std::string(value ? "true" : "false"); });
}

Knob size(std::string key, Place<int64_t> place, int64_t min, int64_t max, std::string meaning) {
  return make_knob<int64_t>(
      std::move(key), "size", to_range(format_size(min), format_size(max)), std::move(meaning),
      place, [=](const Scalar& s) { return parse_size(s, min, max); },
      [](int64_t value) { return format_size(value); });
}

Knob duration(std::string key, Place<Duration> place, Duration min, Duration max,
              std::string meaning) {
  return make_knob<Duration>(
      std::move(key), "duration", to_range(format_duration(min), format_duration(max)),
      std::move(meaning), place, [=](const Scalar& s) { return parse_duration(s, min, max); },
      [](Duration value) { return format_duration(value); });
}

std::string escaped(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "\"";
}

Knob text(std::string key, Place<std::string> place, size_t max_length, std::string meaning) {
  return make_knob<std::string>(
      std::move(key), "text", "1 to " + std::to_string(max_length) + " bytes",
      std::move(meaning), place, [=](const Scalar& s) { return parse_text(s, max_length); },
      [](const std::string& value) { return escaped(value); });
}

Knob path(std::string key, Place<std::string> place, std::string meaning) {
  return make_knob<std::string>(
      std::move(key), "path", "~/ and paths relative to the file are expanded",
      std::move(meaning), place, [](const Scalar& s) { return parse_path(s); },
      [](const std::string& value) { return escaped(value); });
}

Knob endpoint(std::string key, Place<Endpoint> place, std::string scheme, std::string meaning) {
  const std::string range = scheme + "HOST:PORT, loopback only for now; port 0 = any free port";
  return make_knob<Endpoint>(
      std::move(key), "address", range, std::move(meaning), place,
      [scheme](const Scalar& s) { return parse_endpoint(s, scheme); },
      [scheme](const Endpoint& value) { return escaped(scheme + value.text()); });
}

// One spelling of a choice. `unsupported` says what to use instead of a value that is planned.
template <typename T>
struct Option {
  std::string word;
  T value;
  std::string unsupported = {};
};

template <typename T>
Knob choice(std::string key, Place<T> place, std::vector<Option<T>> options,
            std::string meaning) {
  std::vector<std::string> words;
  for (const Option<T>& option : options) {
    if (option.unsupported.empty()) words.push_back(option.word);
  }
  const auto parse = [options, words](const Scalar& scalar) -> Result<T> {
    for (const Option<T>& option : options) {
      if (scalar.text != option.word) continue;
      if (option.unsupported.empty()) return option.value;
      return Error{ErrorCode::kUnsupported,
                   "not yet supported: " + option.word + "; use " + option.unsupported, ""};
    }
    const Result<size_t> index = parse_choice(scalar, words);
    return index.error();  // no option has this word
  };
  const auto format = [options](const T& value) {
    for (const Option<T>& option : options) {
      if (option.value == value) return option.word;
    }
    return std::string("?");
  };
  return make_knob<T>(std::move(key), "choice", join(words, ", "), std::move(meaning), place,
                      parse, format);
}

// A key that is planned: present in the reference, any value but `only` is refused.
Knob restricted(Knob knob, const std::string& only) {
  const auto set = knob.set;
  knob.set = [set, only](Config& config, Role role, const Scalar& scalar) -> Status {
    const Status status = set(config, role, scalar);
    if (!status.ok() || (scalar.text == only && !scalar.quoted)) return status;
    return Error{ErrorCode::kUnsupported,
                 "not yet supported: " + scalar.text + "; use " + only, ""};
  };
  knob.range = only + " (others not yet supported)";
  return knob;
}

Knob refused(std::string key, Place<std::string> place, std::string type, std::string meaning,
             std::string instead) {
  Knob knob = text(std::move(key), place, 4095, std::move(meaning));
  knob.type = std::move(type);
  knob.range = "not yet supported";
  knob.derived_default = "(absent)";
  const std::string word = knob.key.substr(knob.key.rfind('.') + 1);
  knob.set = [word, instead](Config&, Role, const Scalar&) -> Status {
    return Error{ErrorCode::kUnsupported, "not yet supported: " + word + "; " + instead, ""};
  };
  return knob;
}

// The member behind a key: WHERE(c.kv.block_size), POOL(threads). Undefined below.
#define WHERE(member) +[](Config& c, Role) -> decltype(auto) { return (member); }
#define POOL(member) +[](Config& c, Role r) -> decltype(auto) { return (c.pools.of(r).member); }

void add_model_and_coordinator(std::vector<Knob>& knobs) {
  knobs.push_back(path("model.path", WHERE(c.model.path), "The model file (GGUF)."));
  knobs.back().derived_default = "(required)";
  knobs.push_back(text("model.alias", WHERE(c.model.alias), 128,
                       "The model's name in the HTTP interface."));
  knobs.back().derived_default = "the file's name without .gguf";
  knobs.push_back(integer("model.max_context", WHERE(c.model.max_context), 16, 1 << 20,
                          "Longest prompt plus answer, in tokens."));
  knobs.back().derived_default = "the model's own length";
  knobs.push_back(endpoint("coordinator.http", WHERE(c.coordinator.http), "",
                           "Where clients reach the cluster."));
  knobs.push_back(endpoint("coordinator.control", WHERE(c.coordinator.control), "tcp://",
                           "Where workers reach the coordinator."));
  knobs.push_back(size("coordinator.limits.max_body", WHERE(c.coordinator.limits.max_body_bytes),
                       kKiB, kGiB, "Largest body of one HTTP request; a larger one gets 413."));
  knobs.push_back(size("coordinator.limits.max_header",
                       WHERE(c.coordinator.limits.max_header_bytes), kKiB, kMiB,
                       "Largest head of one HTTP request; a larger one gets 431."));
  knobs.push_back(integer("coordinator.limits.max_connections",
                          WHERE(c.coordinator.limits.max_connections), 1, 100000,
                          "Open HTTP connections; further ones are closed at once."));
}

void add_pools(std::vector<Knob>& knobs) {
  knobs.push_back(integer("pools.*.instances", POOL(instances), 0, 64,
                          "Number of instances of this role."));
  knobs.back().derived_default = "1 (0 when the pool is absent)";
  knobs.push_back(restricted(integer("pools.*.tp", POOL(tp), 1, 64,
                                     "Tensor parallel ranks of an instance."), "1"));
  knobs.push_back(restricted(integer("pools.*.pp", POOL(pp), 1, 64,
                                     "Pipeline stages of an instance."), "1"));
  knobs.push_back(restricted(flag("pools.*.ep", POOL(ep),
                                  "Spread experts over the tensor parallel ranks."), "false"));
  knobs.push_back(choice<Device>("pools.*.device", POOL(device),
                                 {{"cpu", Device::kCpu}, {"cuda", Device::kCuda, "cpu"}},
                                 "What computes."));
  knobs.push_back(choice<Ops>("pools.*.ops", POOL(ops),
                              {{"auto", Ops::kAuto}, {"reference", Ops::kReference},
                               {"avx2", Ops::kAvx2}, {"avx512", Ops::kAvx512}},
                              "Which kernels; auto = the fastest the processor can run."));
  knobs.push_back(integer("pools.*.threads", POOL(threads), 1, 256, "Compute threads per rank."));
  knobs.push_back(size("pools.*.kv_memory", POOL(kv_memory_bytes), kMiB, 4 * kTiB,
                       "Memory for KV blocks per rank."));
  knobs.push_back(integer("pools.*.prefill_chunk", POOL(prefill_chunk), 1, 65536,
                          "Most prompt tokens of one sequence in one step."));
  knobs.push_back(integer("pools.*.max_sequences", POOL(max_sequences), 1, 4096,
                          "Most running sequences of an instance."));
  knobs.push_back(integer("pools.*.step_token_budget", POOL(step_token_budget), 1, 1 << 20,
                          "Tokens of one step: decodes first, then prompt chunks."));
  knobs.back().derived_default = "max_sequences + prefill_chunk";
  knobs.push_back(refused("pools.*.hosts",
                          +[](Config& c, Role) -> std::string& { return c.cluster.secret_file; },
                          "list", "Machines of this pool.", "remove it: all run on this machine"));
}

void add_kv_link_router(std::vector<Knob>& knobs) {
  knobs.push_back(choice<int>("kv.block_size", WHERE(c.kv.block_size),
                              {{"16", 16}, {"32", 32}, {"64", 64}}, "Tokens per KV block."));
  knobs.push_back(choice<KvDtype>("kv.dtype", WHERE(c.kv.dtype),
                                  {{"f32", KvDtype::kF32}, {"bf16", KvDtype::kBf16}},
                                  "Number format of stored keys and values."));
  knobs.push_back(flag("kv.prefix_cache", WHERE(c.kv.prefix_cache),
                       "Reuse blocks of equal prompt beginnings inside an instance."));
  knobs.push_back(choice<LinkKind>(
      "link.kind", WHERE(c.link.kind),
      {{"auto", LinkKind::kAuto}, {"tcp", LinkKind::kTcp}, {"shm", LinkKind::kShm, "auto or tcp"},
       {"nccl", LinkKind::kNccl, "auto or tcp"}},
      "What carries KV blocks between instances; auto = the fastest both sides have."));
  knobs.push_back(choice<std::string>("router.policy", WHERE(c.router.policy),
                                      {{"least_loaded", "least_loaded"}},
                                      "How a request's instances are chosen."));
  knobs.push_back(integer("router.local_prefill_tokens", WHERE(c.router.local_prefill_tokens), 0,
                          1 << 20, "Fewer uncached prompt tokens than this are computed by the "
                          "decode instance itself; 0 = never."));
  knobs.push_back(integer("queue.max_waiting", WHERE(c.queue.max_waiting), 1, 1'000'000,
                          "Requests waiting in the coordinator; further ones get 429."));
}

void add_deadlines(std::vector<Knob>& knobs) {
  const auto add = [&](const char* name, Place<Duration> place, const char* meaning) {
    knobs.push_back(duration(std::string("deadlines.") + name, place, milliseconds(1),
                             seconds(86400), meaning));
  };
  add("heartbeat", WHERE(c.deadlines.heartbeat), "Period of a worker's heartbeats.");
  add("suspect", WHERE(c.deadlines.suspect), "An instance silent so long gets no new work.");
  add("fenced", WHERE(c.deadlines.fenced), "An instance silent so long is fenced.");
  add("stalled_min", WHERE(c.deadlines.stalled_min),
      "An instance is fenced when its step is older than this and than its prediction allows.");
  knobs.push_back(number("deadlines.stalled_factor", WHERE(c.deadlines.stalled_factor), 1, 1000,
                         "How many times its prediction a step may take."));
  add("join", WHERE(c.deadlines.join), "From a worker's start to its admission.");
  add("coordinator_grace", WHERE(c.deadlines.coordinator_grace),
      "How long a worker keeps its work without its coordinator.");
  add("grant_ttl", WHERE(c.deadlines.grant_ttl), "Life of a grant without renewal or frames.");
  add("source_lease", WHERE(c.deadlines.source_lease),
      "How long the prefill side keeps a prompt's blocks for another push.");
  add("renew", WHERE(c.deadlines.renew), "Period of renewals; also how often a worker hears from the coordinator.");
  add("resend", WHERE(c.deadlines.resend), "An unanswered message is sent again after this.");
  add("link_open", WHERE(c.deadlines.link_open), "Opening of a KV link.");
  add("link_closed", WHERE(c.deadlines.link_closed), "How long a failed KV link stays closed.");
  add("request", WHERE(c.deadlines.request), "A request as a whole.");
  add("client_stall", WHERE(c.deadlines.client_stall),
      "A client that reads nothing for so long loses its request.");
  add("http_header", WHERE(c.deadlines.http_header), "Reading one HTTP request.");
  add("http_idle", WHERE(c.deadlines.http_idle), "A kept-alive HTTP connection without request.");
  add("drain", WHERE(c.deadlines.drain), "Running requests at shutdown.");
  add("loop_lag", WHERE(c.deadlines.loop_lag),
      "A loop that finds itself later than this extends its deadlines by the lag.");
}

void add_testing_and_cluster(std::vector<Knob>& knobs) {
  knobs.push_back(flag("testing.logits_digest", WHERE(c.testing.logits_digest),
                       "Put a digest of each request's logits into its last chunk."));
  knobs.push_back(flag("testing.verify_blocks", WHERE(c.testing.verify_blocks),
                       "false: accept received KV blocks unchecked."));
  knobs.push_back(integer("testing.flip_received_block", WHERE(c.testing.flip_received_block), 0,
                          1'000'000'000, "n: flip one bit in the n-th received KV block."));
  knobs.push_back(size("testing.slow_link", WHERE(c.testing.slow_link_bytes_per_s), 0, kTiB,
                       "Most bytes a KV link sends per second; 0B = not limited."));
  knobs.push_back(integer("testing.seed", WHERE(c.testing.seed), 0, INT64_MAX,
                          "Source of the seeds of unseeded requests; 0 = random."));
  knobs.push_back(refused("cluster.secret_file", WHERE(c.cluster.secret_file), "path",
                          "Shared secret that any address beyond loopback needs.",
                          "remove it and bind loopback addresses only"));
}

#undef WHERE
#undef POOL

}  // namespace

std::string Knob::key_for(Role role) const {
  const size_t star = key.find('*');
  if (star == std::string::npos) return key;
  return key.substr(0, star) + role_name(role) + key.substr(star + 1);
}

const std::vector<Knob>& all_knobs() {
  static const std::vector<Knob> knobs = [] {
    std::vector<Knob> all;
    add_model_and_coordinator(all);
    add_pools(all);
    add_kv_link_router(all);
    add_deadlines(all);
    add_testing_and_cluster(all);
    return all;
  }();
  return knobs;
}

}  // namespace tandem::config
