#pragma once
// A client of the simulated cluster: knows what it must get, and notices everything else.

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "coordinator/request/service.h"

namespace tandem::sim {

class SimClient final : public request::Observer {
 public:
  enum class State { kWaiting, kRunning, kOk, kFailed, kLeft, kVoid };
  using Broken = std::function<void(const std::string&)>;

  SimClient(uint32_t number, request::Request request, std::vector<uint32_t> expected,
            Broken broken)
      : number_(number), request_(std::move(request)), expected_(std::move(expected)),
        broken_(std::move(broken)) {}

  // Leaves (cancel) or stops early (a stop string) after that many tokens; -1: never.
  int leave_after = -1;
  int stop_after = -1;

  void submit(request::Service& service) {
    service_ = &service;
    Result<RequestId> id = service.submit(request_, *this);
    if (!id) {
      if (id.error().code == ErrorCode::kInvalidArgument) broken_(name() + id.error().message);
      return;
    }
    id_ = *id;
    state_ = State::kRunning;
  }
  void leave() {
    if (state_ != State::kRunning) return;
    service_->cancel(id_, static_cast<uint32_t>(received_.size()));
    state_ = State::kLeft;
  }
  // The coordinator died: the request went with it.
  void lose_coordinator() {
    if (state_ == State::kRunning) state_ = State::kVoid;
  }

  void on_tokens(std::span<const request::TokenEvent> tokens) override {
    if (state_ != State::kRunning) broken_(name() + "got tokens after its end");
    for (const request::TokenEvent& token : tokens) {
      if (token.index != received_.size()) {
        broken_(name() + "got index " + std::to_string(token.index) + " after " +
                std::to_string(received_.size()) + " tokens");
        return;
      }
      if (token.index >= expected_.size() || expected_[token.index] != token.id) {
        broken_(name() + "got another token at index " + std::to_string(token.index) +
                " than the undisturbed run");
        return;
      }
      received_.push_back(token.id);
    }
    const int n = static_cast<int>(received_.size());
    if (leave_after >= 0 && n >= leave_after) {
      leave();
    } else if (stop_after >= 0 && n >= stop_after) {
      (void)service_->finish_early(id_, static_cast<uint32_t>(stop_after));
      state_ = State::kLeft;
    }
  }

  void on_end(const request::Ending& ending) override {
    if (state_ != State::kRunning) broken_(name() + "ended twice");
    attempts = ending.trace.attempts;
    if (ending.ok) {
      state_ = State::kOk;
      if (received_ != expected_) {
        broken_(name() + "ended after " + std::to_string(received_.size()) + " of " +
                std::to_string(expected_.size()) + " tokens");
      }
      if (ending.usage.completion_tokens != received_.size()) broken_(name() + "wrong usage");
      if (ending.usage.cached_tokens >= ending.usage.prompt_tokens) {
        broken_(name() + "every prompt token counts as cached");
      }
    } else {
      state_ = State::kFailed;
      error = ending.error.message;
    }
  }

  State state() const { return state_; }
  bool over() const { return state_ != State::kWaiting && state_ != State::kRunning; }
  std::string name() const { return "request " + std::to_string(number_) + ": "; }
  uint32_t attempts = 0;
  std::string error;

 private:
  uint32_t number_;
  request::Request request_;
  std::vector<uint32_t> expected_;
  Broken broken_;
  request::Service* service_ = nullptr;
  RequestId id_;
  State state_ = State::kWaiting;
  std::vector<uint32_t> received_;
};

}  // namespace tandem::sim
