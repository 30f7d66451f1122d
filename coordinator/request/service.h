#pragma once
// What the gateway asks of the coordinator: submit a request, watch its tokens, leave early.
// One thread: the coordinator's event loop calls and is called; nothing here blocks.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "comm/runtime/ids.h"
#include "comm/runtime/result.h"

namespace tandem::request {

// The sampling fields of a request, validated (finite, in range) by the gateway.
struct Sampling {
  float temperature = 1.0f;  // <= 1e-4 is greedy
  int32_t top_k = 0;         // 0 = off
  float top_p = 1.0f;
  float min_p = 0.0f;
  uint64_t seed = 0;         // the gateway draws one when the client gave none
  int32_t num_logprobs = -1; // -1 = none, 0 = the sampled token only
};

// One choice of one client request.
struct Request {
  std::vector<uint32_t> prompt;      // token ids, at least one, all < vocabulary
  uint32_t max_tokens = 0;           // output tokens, >= 1; prompt + max_tokens <= context
  Sampling sampling;
  std::vector<uint32_t> stop_ids;    // beside EOS
  bool ignore_eos = false;
  std::string client_id;             // echoed and logged; never a key
};

struct Logprob {
  uint32_t id = 0;
  float logprob = 0;
};

// One output token. index counts from 0 without gaps or repeats over all attempts.
struct TokenEvent {
  uint32_t index = 0;
  uint32_t id = 0;
  uint64_t logits_digest = 0;        // 0 unless testing.logits_digest
  bool has_logprob = false;
  float logprob = 0;                 // raw log-softmax
  std::vector<Logprob> top;
};

enum class FinishReason { kLength, kStopId };

// What the request cost; complete when the ending is delivered.
struct Usage {
  uint32_t prompt_tokens = 0;
  uint32_t completion_tokens = 0;
  uint32_t cached_tokens = 0;        // prompt tokens that no leg of attempt 0 computed
};

// How the request travelled, for the `tandem` object of a response and for the log.
struct Trace {
  std::string prefill_instance;      // the one that sampled the first token
  std::string decode_instance;       // the last one that decoded; empty if the first token ended it
  uint32_t attempts = 1;
  uint32_t epochs = 1;
  uint64_t kv_bytes_moved = 0;
  double hidden_share = -1;          // of the transfer; < 0: absent
  uint32_t decode_local_compute = 0; // prompt tokens the decode side computed
  double ttft_s = -1;                // from submit() to the first token handed to the observer
  double longest_gap_s = 0;          // between two tokens handed to the observer
  uint64_t logits_digest = 0;        // chained over all tokens; 0 unless testing.logits_digest
};

struct Ending {
  bool ok = false;
  FinishReason reason = FinishReason::kLength;  // when ok
  Error error;                                  // when not ok
  Usage usage;
  Trace trace;
};

// Owned by the gateway; outlives the request, which ends by on_end, finish_early or cancel.
class Observer {
 public:
  virtual ~Observer() = default;
  // Tokens in index order, each once. May call finish_early() or cancel() of this request.
  virtual void on_tokens(std::span<const TokenEvent> tokens) = 0;
  // Once, unless finish_early() or cancel() came first; nothing is called afterwards.
  virtual void on_end(const Ending& ending) = 0;
};

// A snapshot for /health, /ready and admission.
struct Readiness {
  bool ready = false;          // some path can serve a request now
  bool all_instances = false;  // every configured instance is ready
  bool draining = false;       // drain() was called; ready is false then
  std::string why;             // when not ready, for the 503
  uint32_t max_request_tokens = 0;  // prompt + output the largest pool can ever hold; 0: unknown
};

class Service {
 public:
  virtual ~Service() = default;

  // Queues the request. Failures: kInvalidArgument (never fits: prompt + max_tokens larger than
  // any pool; field "max_tokens"), kExhausted (queue full or draining: 429/503 + Retry-After),
  // kUnavailable (no path can serve and none is on its way: 503).
  // Never calls the observer before it returned. Requires: observer outlives the request.
  virtual Result<RequestId> submit(Request request, Observer& observer) = 0;

  // The gateway has what it wants after `delivered` output tokens (a stop string). The legs are
  // cancelled; returns usage and trace as of now. Unknown ids give an empty Ending.
  virtual Ending finish_early(RequestId id, uint32_t delivered) = 0;

  // The client left after `delivered` tokens were handed to it. Unknown ids are ignored.
  virtual void cancel(RequestId id, uint32_t delivered) = 0;

  virtual Readiness readiness() const = 0;
  // The JSON of /admin/cluster: {"instances": [...], ...}.
  virtual std::string cluster_json() const = 0;
  // Stops intake; running requests finish. Idempotent.
  virtual void drain() = 0;
};

}  // namespace tandem::request
