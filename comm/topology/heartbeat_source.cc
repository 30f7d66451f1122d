#include "comm/topology/heartbeat_source.h"

#include <algorithm>

#include "comm/wire/codec.h"

namespace tandem::topology {
namespace {

uint32_t milliseconds(Duration duration) {
  return static_cast<uint32_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(duration).count());
}

}  // namespace

void HeartbeatSource::identify(Incarnation self, Incarnation coordinator) {
  std::lock_guard lock(mutex_);
  self_ = self;
  coordinator_ = coordinator;
}

void HeartbeatSource::update(const wire::Heartbeat& beat) {
  std::lock_guard lock(mutex_);
  beat_ = beat;
}

void HeartbeatSource::plan_started(TimePoint at, Duration predicted) {
  std::lock_guard lock(mutex_);
  plan_running_ = true;
  plan_started_ = at;
  plan_predicted_ = predicted;
}

void HeartbeatSource::plan_finished() {
  std::lock_guard lock(mutex_);
  plan_running_ = false;
}

std::string HeartbeatSource::make() const {
  std::lock_guard lock(mutex_);
  if (coordinator_ == Incarnation{}) return "";
  wire::Envelope envelope;
  envelope.set_to_incarnation(coordinator_.value);
  envelope.set_from_incarnation(self_.value);
  wire::Heartbeat& beat = *envelope.mutable_heartbeat();
  beat = beat_;
  beat.set_plan_running(plan_running_);
  if (plan_running_) {
    beat.set_plan_age_ms(milliseconds(clock_.now() - plan_started_));
    beat.set_plan_predicted_ms(milliseconds(plan_predicted_));
  }
  return wire::encode(envelope);
}

bool HeartbeatSource::stalled(Duration min, double factor) const {
  std::lock_guard lock(mutex_);
  if (!plan_running_) return false;
  const Duration predicted{static_cast<int64_t>(factor *
                                                static_cast<double>(plan_predicted_.count()))};
  return clock_.now() - plan_started_ > std::max(min, predicted);
}

}  // namespace tandem::topology
