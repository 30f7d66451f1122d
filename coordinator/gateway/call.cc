#include "coordinator/gateway/call.h"

#include <utility>

#include "comm/runtime/check.h"

namespace tandem::gateway {

using telemetry::FinishedReason;

Call::Call(const CallContext& context, const ApiRequest& options, AnswerHead head, Reply reply,
           std::function<void(Call&)> ended)
    : context_(context),
      head_(std::move(head)),
      stream_(options.stream),
      reply_(std::move(reply)),
      ended_(std::move(ended)),
      started_(context.loop.now()),
      text_(context.tokenizer, {.stops = options.stop,
                                .include_stop = options.include_stop_text,
                                .skip_control = options.skip_special_tokens}) {}

void Call::start(request::Request request) {
  CHECK(state_ == State::kNew);
  num_prompt_tokens_ = static_cast<uint32_t>(request.prompt.size());
  if (head_.with_token_ids) prompt_ids_ = request.prompt;
  const Result<RequestId> id = context_.service.submit(std::move(request), *this);
  if (!id.ok()) return refuse(id.error());
  id_ = *id;
  state_ = State::kRunning;
  watch_client();
  if (!stream_) return;
  reply_.begin_stream();
  // The role comes before any token, so that a client sees at once that it was admitted.
  if (head_.endpoint == Endpoint::kChat) write_chunk(nullptr);
}

void Call::refuse(const Error& error) {
  reply_.send(error_response(service_error(error, context_.service.readiness().draining)));
  end(FinishedReason::kError);
}

void Call::watch_client() {
  http::ResponseWriter& writer = reply_.writer();
  writer.on_closed([weak = weak_from_this()] {
    if (const auto call = weak.lock()) call->client_left();
  });
  writer.on_drained([weak = weak_from_this()] {
    if (const auto call = weak.lock()) call->flush();
  });
}

void Call::abandon() {
  if (state_ == State::kRunning) context_.service.cancel(id_, num_handed_);
  state_ = State::kOver;
}

void Call::client_left() {
  if (state_ == State::kOver) return;
  context_.log.info("client_left", {{"request", id_},
                                    {"client_id", reply_.request_id()},
                                    {"generated", output_ids_.size()},
                                    {"delivered", num_handed_}});
  if (state_ == State::kRunning) context_.service.cancel(id_, num_handed_);
  end(FinishedReason::kAbort);
}

void Call::on_tokens(std::span<const request::TokenEvent> tokens) {
  CHECK(state_ == State::kRunning);
  std::vector<request::TokenId> ids;
  for (const request::TokenEvent& token : tokens) {
    CHECK_EQ(token.index, output_ids_.size() + ids.size());
    ids.push_back(static_cast<request::TokenId>(token.id));
  }
  pending_text_ += text_.feed(ids).text;
  // A stop string leaves the ids behind it to nobody.
  ids.resize(text_.num_ids() - output_ids_.size());
  output_ids_.insert(output_ids_.end(), ids.begin(), ids.end());
  if (text_.finished()) {
    const auto delivered = static_cast<uint32_t>(output_ids_.size());
    request::Ending ending = context_.service.finish_early(id_, delivered);
    return finish({"stop", ending.usage, std::move(ending.trace)});
  }
  if (stream_) {
    flush();
  } else {
    note_tokens();
  }
}

void Call::on_end(const request::Ending& ending) {
  CHECK(state_ == State::kRunning);
  if (!ending.ok) return fail(ending.error);
  pending_text_ += text_.finish().text;
  // The replacement of a cut character may complete a stop string.
  const bool length =
      ending.reason == request::FinishReason::kLength && !text_.matched_stop().has_value();
  finish({length ? "length" : "stop", ending.usage, ending.trace});
}

void Call::finish(Outcome outcome) {
  state_ = State::kEnding;
  outcome.usage.prompt_tokens = num_prompt_tokens_;
  outcome.usage.completion_tokens = static_cast<uint32_t>(output_ids_.size());
  outcome_ = std::move(outcome);
  if (stream_) {
    flush();
  } else {
    respond();
  }
}

void Call::fail(const Error& error) {
  context_.log.warning("request_failed", {{"request", id_},
                                          {"client_id", reply_.request_id()},
                                          {"code", error_code_name(error.code)},
                                          {"message", error.message}});
  const ApiError api = service_error(error, context_.service.readiness().draining);
  if (stream_) {
    reply_.writer().write(error_event(api));
    reply_.writer().end();
  } else {
    reply_.send(error_response(api));
  }
  end(FinishedReason::kError);
}

void Call::flush() {
  if (state_ != State::kRunning && state_ != State::kEnding) return;
  http::ResponseWriter& writer = reply_.writer();
  if (writer.pending_bytes() > context_.max_pending_bytes) return;   // on_drained comes back
  if (state_ == State::kRunning) {
    if (!pending_text_.empty()) write_chunk(nullptr);
    return;
  }
  write_chunk(&*outcome_);
  if (head_.usage_key) writer.write(usage_event(head_, outcome_->usage));
  writer.write(std::string(kDoneEvent));
  writer.end();
  end_well();
}

void Call::write_chunk(const Outcome* last) {
  AnswerPart part{.text = pending_text_,
                  .token_ids = std::span(output_ids_).subspan(num_handed_),
                  .first = first_chunk_,
                  .prompt_token_ids = prompt_ids_};
  if (last != nullptr) {
    part.finish_reason = last->finish_reason;
    part.trace = &last->trace;
  }
  reply_.writer().write(chunk_event(head_, part));
  first_chunk_ = false;
  pending_text_.clear();
  num_handed_ = static_cast<uint32_t>(output_ids_.size());
  note_tokens();
}

void Call::respond() {
  const AnswerPart part{.text = pending_text_,
                        .token_ids = output_ids_,
                        .first = true,
                        .prompt_token_ids = prompt_ids_,
                        .finish_reason = outcome_->finish_reason,
                        .trace = &outcome_->trace};
  note_tokens();
  reply_.send(http::make_response(200, "application/json",
                                  answer_json(head_, part, outcome_->usage)));
  end_well();
}

// Latencies at the moment tokens are handed to the socket; a call that doesn't stream counts them
// as they reach it. A gap that brought several tokens is shared between them.
void Call::note_tokens() {
  const auto total = static_cast<uint32_t>(output_ids_.size());
  if (num_noted_ == total) return;
  const TimePoint now = context_.loop.now();
  uint32_t fresh = total - num_noted_;
  if (num_noted_ == 0) {
    context_.metrics.time_to_first_token.observe(now - started_);
    --fresh;
    last_noted_ = now;
  }
  for (uint32_t i = 0; i < fresh; ++i) {
    context_.metrics.inter_token_latency.observe((now - last_noted_) / fresh);
  }
  num_noted_ = total;
  last_noted_ = now;
}

void Call::end_well() {
  context_.metrics.e2e_request_latency.observe(context_.loop.now() - started_);
  const bool length = outcome_->finish_reason == std::string_view("length");
  end(length ? FinishedReason::kLength : FinishedReason::kStop);
}

void Call::end(FinishedReason reason) {
  state_ = State::kOver;
  context_.metrics.request_success[reason].add();
  ended_(*this);
}

}  // namespace tandem::gateway
