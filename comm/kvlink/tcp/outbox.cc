#include "comm/kvlink/tcp/outbox.h"

#include <algorithm>
#include <utility>

#include "comm/kvlink/tcp/commit_times.h"
#include "comm/kvlink/tcp/frame.h"
#include "comm/runtime/check.h"

namespace tandem::kvlink {
namespace {

wire::Push header_of(const Part& part) {
  wire::Push push;
  push.set_grant(part.grant.value);
  push.set_epoch(part.epoch.value);
  push.set_block_index(part.block_index);
  push.set_payload_bytes(part.bytes.size());
  push.set_chain_hash_low(part.chain_hash.low);
  push.set_chain_hash_high(part.chain_hash.high);
  return push;
}

}  // namespace

Outbox::Flow& Outbox::flow_of(GrantId grant, Epoch epoch) {
  const auto found = std::ranges::find_if(
      flows_, [&](const Flow& flow) { return flow.grant == grant && flow.epoch == epoch; });
  if (found != flows_.end()) return *found;
  flows_.push_back({grant, epoch, {}});
  return flows_.back();
}

void Outbox::push(const Part& part, uint64_t push_id) {
  flow_of(part.grant, part.epoch).items.push_back(QueuedPart{part, push_id, 0, 0});
}

void Outbox::commit(const wire::Commit& commit, TimePoint now) {
  Flow& flow = flow_of(GrantId(commit.grant()), Epoch(commit.epoch()));
  flow.items.push_back(QueuedCommit{commit, now});
}

void Outbox::drop(GrantId grant, Epoch epoch) {
  const auto found = std::ranges::find_if(
      flows_, [&](const Flow& flow) { return flow.grant == grant && flow.epoch == epoch; });
  if (found == flows_.end()) return;
  const auto* first = std::get_if<QueuedPart>(&found->items.front());
  if (first != nullptr && first->sent > 0) {
    wire::Push withdrawal = header_of(first->part);
    withdrawal.set_withdrawn(true);
    withdrawals_.push_back(std::move(withdrawal));
    --num_open_;  // withdrawals leave before any further part begins
  }
  const auto index = static_cast<size_t>(found - flows_.begin());
  flows_.erase(found);
  if (turn_ > index) --turn_;
}

bool Outbox::may_send(const Flow& flow) const {
  const auto* part = std::get_if<QueuedPart>(&flow.items.front());
  return part == nullptr || part->sent > 0 || num_open_ < kMaxOpenParts;
}

void Outbox::pop_item(size_t flow) {
  flows_[flow].items.pop_front();
  if (flows_[flow].items.empty()) {
    flows_.erase(flows_.begin() + static_cast<ptrdiff_t>(flow));
  } else {
    ++turn_;
  }
}

Outbox::FrameInfo Outbox::frame_piece(QueuedPart& queued, std::vector<std::byte>& out,
                                      size_t max_piece_bytes) {
  const auto& bytes = queued.part.bytes;
  if (queued.sent == 0) {
    queued.checksum = wire::payload_checksum(bytes.data(), bytes.size());
    ++num_open_;
  }
  const size_t count = std::min(bytes.size() - queued.sent, max_piece_bytes);
  wire::Push header = header_of(queued.part);
  header.set_checksum(queued.checksum);
  header.set_piece_begin(queued.sent);
  header.set_piece_bytes(count);
  append_frame(FrameKind::kPush, header, out);
  const auto piece = bytes.subspan(queued.sent, count);
  out.insert(out.end(), piece.begin(), piece.end());
  queued.sent += count;
  FrameInfo info{count, std::nullopt};
  if (queued.sent == bytes.size()) {
    info.finished_push = queued.push_id;
    --num_open_;
  }
  return info;
}

std::optional<Outbox::FrameInfo> Outbox::next_frame(std::vector<std::byte>& out,
                                                    size_t max_piece_bytes, TimePoint now) {
  CHECK_GT(max_piece_bytes, 0u);
  if (!withdrawals_.empty()) {
    append_frame(FrameKind::kPush, withdrawals_.front(), out);
    withdrawals_.pop_front();
    return FrameInfo{};
  }
  if (flows_.empty()) return std::nullopt;
  if (turn_ >= flows_.size()) turn_ = 0;
  while (!may_send(flows_[turn_])) turn_ = (turn_ + 1) % flows_.size();  // some part is under way
  const size_t flow = turn_;
  Item& item = flows_[flow].items.front();
  if (auto* queued = std::get_if<QueuedCommit>(&item)) {
    add_delay(queued->commit, now - queued->queued_at);
    queued->commit.set_sent_ns(now.time_since_epoch().count());
    append_frame(FrameKind::kCommit, queued->commit, out);
    pop_item(flow);
    return FrameInfo{};
  }
  const FrameInfo info = frame_piece(std::get<QueuedPart>(item), out, max_piece_bytes);
  if (info.finished_push) {
    pop_item(flow);
  } else {
    ++turn_;
  }
  return info;
}

}  // namespace tandem::kvlink
