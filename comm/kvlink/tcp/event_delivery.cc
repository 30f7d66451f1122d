#include "comm/kvlink/tcp/event_delivery.h"

#include <utility>

namespace tandem::kvlink {
namespace {

constexpr uint32_t kMaxWaiting = 4096;

}  // namespace

EventDelivery::EventDelivery(EventLoop& loop, std::function<void()> on_drained)
    : loop_(loop), state_(std::make_shared<State>()) {
  state_->on_drained = std::move(on_drained);
}

EventDelivery::~EventDelivery() {
  state_->events = nullptr;
  state_->on_drained = nullptr;
}

void EventDelivery::deliver_to(KvLinkEvents& events) { state_->events = &events; }

void EventDelivery::post(Event event) {
  ++state_->waiting;
  loop_.post([state = state_, event = std::move(event)] {
    if (state->events != nullptr) event(*state->events);
    if (--state->waiting == kMaxWaiting / 2 && state->on_drained) state->on_drained();
  });
}

bool EventDelivery::backlogged() const { return state_->waiting.load() >= kMaxWaiting; }

}  // namespace tandem::kvlink
