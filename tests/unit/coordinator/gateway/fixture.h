#pragma once
// A gateway behind a real listener on a real loopback socket, in front of a scripted service.

#include <gtest/gtest.h>

#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "comm/http/server.h"
#include "coordinator/gateway/gateway.h"
#include "raw_client.h"

namespace tandem::gateway {

// Ids 0 to 255 are the bytes; then the control tokens.
inline constexpr uint32_t kBos = 256;        // "<s>"
inline constexpr uint32_t kEos = 257;        // "</s>"
inline constexpr uint32_t kTurn = 258;       // "<|im_start|>"
inline constexpr uint32_t kTurnEnd = 259;    // "<|im_end|>"
inline constexpr uint32_t kVocabularySize = 260;

tokenizer::Tokenizer byte_tokenizer(bool add_bos);
chat_template::ChatTemplate toy_template();
std::vector<uint32_t> bytes_of(std::string_view text);

request::Readiness ready_state();
request::Readiness unready_state(const std::string& why);
request::Readiness draining_state();

// Answers submit() and keeps what it was told; the test plays the cluster. Loop thread only.
class FakeService final : public request::Service {
 public:
  struct Submitted {
    request::Request request;
    request::Observer* observer = nullptr;   // null once the request is over
    uint32_t sent = 0;
  };
  struct Left {
    RequestId id;
    uint32_t delivered = 0;
  };

  Result<RequestId> submit(request::Request request, request::Observer& observer) override;
  request::Ending finish_early(RequestId id, uint32_t delivered) override;
  void cancel(RequestId id, uint32_t delivered) override;
  request::Readiness readiness() const override { return state; }
  std::string cluster_json() const override { return R"({"instances":[]})"; }
  void drain() override { ++drains; }

  // To the newest request, one token per call of the observer, or `per_step`.
  void emit(const std::vector<uint32_t>& ids, size_t per_step = 1);
  void end(request::FinishReason reason);
  void fail(Error error);
  Submitted& newest() { return submitted.back(); }

  std::vector<Submitted> submitted;
  std::vector<Left> finished_early;
  std::vector<Left> cancelled;
  std::optional<Error> refuse;
  request::Readiness state = ready_state();
  int drains = 0;
  // Called at the end of submit(), posted: what the cluster then does.
  std::function<void()> on_submit;
  EventLoop* loop = nullptr;

 private:
  request::Ending ending(const Submitted& submitted) const;
};

struct FixtureOptions {
  bool add_bos = false;
  bool with_template = true;
  uint32_t max_context = 256;
  size_t max_pending_bytes = 64u << 10;
  Duration client_stall = std::chrono::seconds(30);
};

class GatewayFixture {
 public:
  explicit GatewayFixture(FixtureOptions options = {});
  ~GatewayFixture();

  uint16_t port() const { return server_->port(); }
  // Runs on the loop thread and waits.
  void on_loop(const std::function<void()>& action);
  // Polls `condition` on the loop thread for up to 10 s.
  bool eventually(const std::function<bool()>& condition);
  size_t num_calls();
  // Value of a sample in /metrics; -1 when it is not there.
  double sample(const std::string& series);

  // One whole exchange on a fresh connection.
  RawResponse post(const std::string& path, std::string_view body,
                   const std::string& headers = {});
  RawResponse get(const std::string& path);
  // What the service does with the next requests: emit `ids`, then end.
  void script(std::vector<uint32_t> ids, request::FinishReason reason, size_t per_step = 1);

  FakeService service;

 private:
  http::AsioLoop loop_;
  tokenizer::Tokenizer tokenizer_;
  chat_template::ChatTemplate template_;
  telemetry::MetricsRegistry registry_;
  telemetry::CoordinatorMetrics metrics_{registry_, {}};
  telemetry::Logger log_;
  SplitMix64 rng_{7};
  std::unique_ptr<Gateway> gateway_;
  std::unique_ptr<http::HttpServer> server_;
  std::thread thread_;
};

}  // namespace tandem::gateway
