#include "comm/kvlink/tcp/outbox.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "comm/kvlink/tcp/commit_times.h"
#include "comm/kvlink/tcp/frame.h"
#include "comm/runtime/rng.h"
#include "link_fixture.h"

namespace tandem::kvlink {
namespace {

// "1.0/2@100+50": grant.epoch/block at offset + length; "commit 1"; "withdrawn 1.0/2"; "" = empty.
std::string next(Outbox& outbox, size_t max_piece_bytes) {
  std::vector<std::byte> frame;
  const auto info = outbox.next_frame(frame, max_piece_bytes, TimePoint{});
  if (!info) return "";
  const FramePrefix prefix = parse_prefix(frame.data());
  const char* header = reinterpret_cast<const char*>(frame.data()) + kFramePrefixBytes;
  if (static_cast<FrameKind>(prefix.kind) == FrameKind::kCommit) {
    wire::Commit commit;
    EXPECT_TRUE(commit.ParseFromArray(header, static_cast<int>(prefix.header_bytes)));
    return "commit " + std::to_string(commit.grant());
  }
  wire::Push push;
  EXPECT_TRUE(push.ParseFromArray(header, static_cast<int>(prefix.header_bytes)));
  const std::string name = std::to_string(push.grant()) + "." + std::to_string(push.epoch()) +
                           "/" + std::to_string(push.block_index());
  if (push.withdrawn()) return "withdrawn " + name;
  EXPECT_EQ(frame.size(), kFramePrefixBytes + prefix.header_bytes + push.piece_bytes());
  EXPECT_EQ(info->payload_bytes, push.piece_bytes());
  const bool last = push.piece_begin() + push.piece_bytes() == push.payload_bytes();
  EXPECT_EQ(info->finished_push.has_value(), last);
  return name + "@" + std::to_string(push.piece_begin()) + "+" +
         std::to_string(push.piece_bytes());
}

void push_all(Outbox& outbox, const Blocks& blocks) {
  for (uint32_t i = 0; i < blocks.source.size(); ++i) {
    outbox.push(blocks.part(i), blocks.grant.value * 100 + i);
  }
  outbox.commit(blocks.commit(), TimePoint{});
}

TEST(Outbox, TakesTurnsBetweenGrantsAndKeepsTheOrderWithin) {
  Outbox outbox;
  const Blocks a(1, 2, 150), b(2, 1, 80);
  push_all(outbox, a);
  push_all(outbox, b);
  std::vector<std::string> frames;
  for (std::string frame = next(outbox, 100); !frame.empty(); frame = next(outbox, 100)) {
    frames.push_back(frame);
  }
  EXPECT_EQ(frames, (std::vector<std::string>{"1.0/0@0+100", "2.0/0@0+80", "1.0/0@100+50",
                                              "commit 2", "1.0/1@0+100", "1.0/1@100+50",
                                              "commit 1"}));
  EXPECT_TRUE(outbox.empty());
}

TEST(Outbox, AgesOfACommitGrowWhileItWaits) {
  using std::chrono::microseconds;
  for (const int64_t transfer_us : {int64_t{500}, int64_t{0}}) {  // 0: nothing was transferred
    Outbox outbox;
    wire::Commit commit = Blocks(1, 1, 80).commit();
    commit.set_last_chunk_us_ago(70);
    commit.set_transfer_us(transfer_us);
    outbox.commit(commit, TimePoint(microseconds(1000)));
    std::vector<std::byte> frame;
    ASSERT_TRUE(outbox.next_frame(frame, 100, TimePoint(microseconds(1300))));
    const char* header = reinterpret_cast<const char*>(frame.data()) + kFramePrefixBytes;
    const FramePrefix prefix = parse_prefix(frame.data());
    ASSERT_TRUE(commit.ParseFromArray(header, static_cast<int>(prefix.header_bytes)));
    EXPECT_EQ(commit.last_chunk_us_ago(), 370);
    EXPECT_EQ(commit.transfer_us(), transfer_us == 0 ? 0 : 800);
    EXPECT_EQ(commit.sent_ns(), 1'300'000);
  }
}

TEST(WayTime, IsMeasuredAgainstTheFastestFrameWhateverTheClocksSay) {
  WayTime way;
  const int64_t other = -7'000'000'000;  // what the sender's clock shows more than ours
  const auto frame = [&](int64_t sent, int64_t way_ns) {
    return way.excess(sent + other, TimePoint(Duration(sent + way_ns))).count();
  };
  EXPECT_EQ(frame(1000, 500), 0);   // the first: nothing to compare with
  EXPECT_EQ(frame(2000, 900), 400);
  EXPECT_EQ(frame(3000, 300), 0);   // faster than any before
  EXPECT_EQ(frame(4000, 900), 600);
  EXPECT_EQ(way.excess(0, TimePoint(Duration(9000))).count(), 0);
  EXPECT_EQ(frame(5000, 301), 1);
}

TEST(Outbox, BeginsNoMorePartsThanTheReceiverHasRoomFor) {
  Outbox outbox;
  std::vector<Blocks> grants;
  for (uint64_t g = 1; g <= kMaxOpenParts + 2; ++g) grants.emplace_back(g, 1, 1000);
  for (const Blocks& blocks : grants) outbox.push(blocks.part(0), blocks.grant.value);
  std::set<std::string> open;
  size_t most = 0;
  for (std::string frame = next(outbox, 100); !frame.empty(); frame = next(outbox, 100)) {
    const std::string name = frame.substr(0, frame.find('@'));
    open.insert(name);
    most = std::max(most, open.size());
    if (frame.find("@900") != std::string::npos) open.erase(name);
  }
  EXPECT_EQ(most, kMaxOpenParts);
}

TEST(Outbox, WithdrawsAPartThatIsUnderWay) {
  Outbox outbox;
  const Blocks a(1, 2, 300), b(2, 1, 80);
  push_all(outbox, a);
  EXPECT_EQ(next(outbox, 100), "1.0/0@0+100");
  push_all(outbox, b);
  outbox.drop(GrantId(1), Epoch(0));
  EXPECT_EQ(next(outbox, 100), "withdrawn 1.0/0");
  EXPECT_EQ(next(outbox, 100), "2.0/0@0+80");
  EXPECT_EQ(next(outbox, 100), "commit 2");
  EXPECT_EQ(next(outbox, 100), "");
}

TEST(Outbox, DropsOnlyTheNamedEpoch) {
  Outbox outbox;
  const Blocks a(1, 1, 10);
  outbox.push(a.part(0, 0), 1);
  outbox.push(a.part(0, 1), 2);
  outbox.drop(GrantId(1), Epoch(0));
  outbox.drop(GrantId(7), Epoch(0));
  EXPECT_EQ(next(outbox, 100), "1.1/0@0+10");
  EXPECT_TRUE(outbox.empty());
}

TEST(Outbox, SendsEveryByteOnceUnderRandomUse) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    SplitMix64 rng(seed);
    Outbox outbox;
    std::vector<Blocks> grants;
    for (uint64_t g = 1; g <= 8; ++g) {
      grants.emplace_back(g, static_cast<uint32_t>(1 + rng.below(5)), 1 + rng.below(700));
    }
    std::set<uint64_t> dropped;
    for (const Blocks& blocks : grants) push_all(outbox, blocks);
    std::map<std::string, size_t> sent;
    for (;;) {
      const std::string frame = next(outbox, 1 + rng.below(200));
      if (frame.empty()) break;
      const size_t at = frame.find('@'), plus = frame.find('+');
      if (at != std::string::npos) {
        const std::string name = frame.substr(0, at);
        ASSERT_EQ(std::stoul(frame.substr(at + 1)), sent[name]) << "seed " << seed;
        sent[name] += std::stoul(frame.substr(plus + 1));
        ASSERT_FALSE(dropped.contains(std::stoul(frame))) << "seed " << seed;
      }
      if (rng.below(20) == 0) {
        const uint64_t victim = 1 + rng.below(8);
        outbox.drop(GrantId(victim), Epoch(0));
        dropped.insert(victim);
      }
    }
    ASSERT_TRUE(outbox.empty());
    for (const Blocks& blocks : grants) {
      if (dropped.contains(blocks.grant.value)) continue;
      for (uint32_t i = 0; i < blocks.source.size(); ++i) {
        const auto name = std::to_string(blocks.grant.value) + ".0/" + std::to_string(i);
        ASSERT_EQ(sent[name], blocks.source[i].size()) << "seed " << seed;
      }
    }
  }
}

}  // namespace
}  // namespace tandem::kvlink
