// The receiving half without sockets of its own: frame reader and ring.

#include <gtest/gtest.h>
#include <sys/socket.h>

#include "comm/kvlink/tcp/frame_reader.h"
#include "comm/kvlink/tcp/receive_ring.h"
#include "comm/kvlink/tcp/socket.h"
#include "comm/runtime/rng.h"

namespace tandem::kvlink {
namespace {

wire::Push piece(uint64_t grant, uint64_t total, uint64_t begin, uint64_t bytes) {
  wire::Push push;
  push.set_grant(grant);
  push.set_payload_bytes(total);
  push.set_piece_begin(begin);
  push.set_piece_bytes(bytes);
  return push;
}

TEST(ReceiveRing, GathersInterleavedPieces) {
  ReceiveRing ring(100);
  const auto put = [&](const wire::Push& push, int fill) {
    auto memory = ring.place(push);
    EXPECT_TRUE(memory.ok());
    std::ranges::fill(*memory, std::byte(fill));
    return ring.complete_piece();
  };
  EXPECT_FALSE(put(piece(1, 60, 0, 40), 1).has_value());
  EXPECT_FALSE(put(piece(2, 10, 0, 5), 2).has_value());
  const auto first = put(piece(1, 60, 40, 20), 3);
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->header.grant(), 1u);
  ASSERT_EQ(first->bytes.size(), 60u);
  EXPECT_EQ(first->bytes[39], std::byte{1});
  EXPECT_EQ(first->bytes[40], std::byte{3});
  const auto second = put(piece(2, 10, 5, 5), 4);
  ASSERT_TRUE(second.has_value());
  EXPECT_EQ(second->bytes[4], std::byte{2});
}

TEST(ReceiveRing, RefusesWhatDoesNotFit) {
  ReceiveRing ring(100);
  EXPECT_FALSE(ring.place(piece(1, 0, 0, 0)).ok());
  EXPECT_FALSE(ring.place(piece(1, 101, 0, 10)).ok());
  EXPECT_FALSE(ring.place(piece(1, 50, 0, 51)).ok());
  EXPECT_FALSE(ring.place(piece(1, 50, 10, 10)).ok());  // its beginning is missing
  ASSERT_TRUE(ring.place(piece(1, 50, 0, 10)).ok());
  EXPECT_FALSE(ring.complete_piece().has_value());
  EXPECT_FALSE(ring.place(piece(1, 50, 0, 10)).ok());   // begins twice
  EXPECT_FALSE(ring.place(piece(1, 50, 20, 10)).ok());  // a gap
  EXPECT_FALSE(ring.place(piece(1, 60, 10, 10)).ok());  // another total
}

TEST(ReceiveRing, HasRoomForSoManyPartsAndAgainAfterAWithdrawal) {
  ReceiveRing ring(100);
  for (uint64_t g = 1; g <= kMaxOpenParts; ++g) {
    ASSERT_TRUE(ring.place(piece(g, 50, 0, 10)).ok());
    ring.complete_piece();
  }
  EXPECT_FALSE(ring.place(piece(99, 50, 0, 10)).ok());
  ring.withdraw(piece(2, 50, 0, 0));
  ring.withdraw(piece(98, 50, 0, 0));  // unknown
  EXPECT_TRUE(ring.place(piece(99, 50, 0, 10)).ok());
}

// Collects frames; the payload of a Push goes to a buffer.
class Collector final : public FrameSink {
 public:
  Result<std::span<std::byte>> on_header(FrameKind kind, std::string_view header) override {
    frames.emplace_back(kind, std::string(header));
    if (kind != FrameKind::kPush) return std::span<std::byte>{};
    wire::Push push;
    EXPECT_TRUE(push.ParseFromArray(header.data(), static_cast<int>(header.size())));
    payloads.emplace_back(push.piece_bytes());
    return std::span<std::byte>(payloads.back());
  }
  Status on_payload() override {
    ++num_complete;
    return {};
  }
  std::vector<std::pair<FrameKind, std::string>> frames;
  std::vector<std::vector<std::byte>> payloads;
  size_t num_complete = 0;
};

TEST(FrameReader, FindsFramesHoweverTheBytesArrive) {
  SplitMix64 rng(11);
  std::vector<std::byte> stream;
  std::vector<std::vector<std::byte>> sent;
  for (int i = 0; i < 60; ++i) {
    wire::Commit commit;
    commit.set_grant(static_cast<uint64_t>(i));
    append_frame(FrameKind::kCommit, commit, stream);
    std::vector<std::byte> bytes(1 + rng.below(i % 10 == 0 ? 200'000 : 300));
    for (std::byte& byte : bytes) byte = std::byte(rng.next());
    append_frame(FrameKind::kPush, piece(1, bytes.size(), 0, bytes.size()), stream);
    stream.insert(stream.end(), bytes.begin(), bytes.end());
    sent.push_back(std::move(bytes));
  }
  int fds[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
  FileDescriptor in(fds[0]), out(fds[1]);
  FrameReader reader;
  Collector collector;
  EXPECT_FALSE(reader.mid_frame());
  for (size_t at = 0; at < stream.size();) {
    const size_t wanted = std::min<size_t>(1 + rng.below(rng.below(2) ? 20 : 90'000),
                                           stream.size() - at);
    const ssize_t count = ::send(out.get(), stream.data() + at, wanted, 0);
    if (count > 0) at += static_cast<size_t>(count);
    ASSERT_TRUE(reader.read_from(in.get(), collector).ok());
  }
  EXPECT_EQ(collector.frames.size(), 120u);
  EXPECT_EQ(collector.num_complete, 60u);
  EXPECT_EQ(collector.payloads, sent);
  EXPECT_FALSE(reader.mid_frame());
  EXPECT_EQ(reader.num_bytes(), stream.size());
  out.reset();
  EXPECT_EQ(reader.read_from(in.get(), collector).error().code, ErrorCode::kUnavailable);
}

TEST(Endpoint, ParsesAndFormats) {
  EXPECT_EQ(parse_endpoint("tcp://127.0.0.1:80")->port, 80);
  EXPECT_EQ(parse_endpoint("tcp://[::1]:80")->host, "::1");
  EXPECT_EQ(format_endpoint({"::1", 80}), "tcp://[::1]:80");
  for (const char* wrong : {"", "tcp://", "tcp://x", "tcp://:1", "tcp://x:", "tcp://x:65536",
                            "tcp://x:1a", "tcp://[]:1", "tcp://[x:1", "udp://x:1"}) {
    EXPECT_FALSE(parse_endpoint(wrong).ok()) << wrong;
  }
}

}  // namespace
}  // namespace tandem::kvlink
