#pragma once
// Call: one completion on its way, from submit to the last byte.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/runtime/event_loop.h"
#include "comm/telemetry/coordinator_metrics.h"
#include "comm/telemetry/log.h"
#include "coordinator/gateway/api_request.h"
#include "coordinator/gateway/reply.h"
#include "coordinator/gateway/response_text.h"
#include "coordinator/request/service.h"
#include "coordinator/request/text_stream.h"
#include "model/tokenizer/tokenizer.h"

namespace tandem::gateway {

// What all calls share. Everything outlives them.
struct CallContext {
  EventLoop& loop;
  request::Service& service;
  const tokenizer::Tokenizer& tokenizer;
  telemetry::CoordinatorMetrics& metrics;
  telemetry::Logger& log;
  // A stream hands no more to a socket that still holds so much; the rest waits, merged.
  size_t max_pending_bytes = 64u << 10;
};

// Owned by the Gateway (shared_ptr: socket callbacks hold weak ones, and a call that ends inside
// one of its own methods must live until that returns). Loop thread only. Its journal is the list
// of token ids and the text not yet handed over, so a slow client costs no more than max_tokens.
// Never touches the service after the request's end.
class Call final : public request::Observer, public std::enable_shared_from_this<Call> {
 public:
  // `ended` is called once, last; the owner may drop the call in it.
  Call(const CallContext& context, const ApiRequest& options, AnswerHead head, Reply reply,
       std::function<void(Call&)> ended);

  // Submits and, for a stream, sends the headers; a refusal is answered at once.
  void start(request::Request request);
  // Cancels what still runs; the connection is left to its owner. No call of `ended`.
  void abandon();

  void on_tokens(std::span<const request::TokenEvent> tokens) override;
  void on_end(const request::Ending& ending) override;

 private:
  enum class State { kNew, kRunning, kEnding, kOver };
  struct Outcome {
    const char* finish_reason = nullptr;
    request::Usage usage;
    request::Trace trace;
  };

  void refuse(const Error& error);
  void watch_client();
  void client_left();
  void finish(Outcome outcome);
  void fail(const Error& error);
  void flush();
  void write_chunk(const Outcome* last);
  void respond();
  void note_tokens();
  void end_well();
  void end(telemetry::FinishedReason reason);

  const CallContext& context_;
  const AnswerHead head_;
  const bool stream_;
  Reply reply_;
  std::function<void(Call&)> ended_;
  const TimePoint started_;

  State state_ = State::kNew;
  RequestId id_;
  request::TextStream text_;
  std::vector<uint32_t> prompt_ids_;    // kept only for return_token_ids
  std::vector<uint32_t> output_ids_;
  std::string pending_text_;            // decided, not yet handed over
  uint32_t num_prompt_tokens_ = 0;
  uint32_t num_handed_ = 0;             // of output_ids_, written to a stream
  bool first_chunk_ = true;
  uint32_t num_noted_ = 0;              // of output_ids_, in the latency metrics
  TimePoint last_noted_;
  std::optional<Outcome> outcome_;
};

}  // namespace tandem::gateway
