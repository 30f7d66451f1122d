// TcpKvLink over real sockets: what works when nothing fails.

#include <gtest/gtest.h>

#include <ctime>
#include <deque>
#include <map>

#include "link_fixture.h"

namespace tandem::kvlink {
namespace {

constexpr uint64_t kSecret = 77;

struct Pair {
  explicit Pair(TcpLinkOptions prefill_options = Node::options("prefill-0", 11),
                TcpLinkOptions decode_options = Node::options("decode-0", 22))
      : prefill(prefill_options), decode(decode_options) {
    decode.call([&] { decode.link().expect_peer(prefill.incarnation(), kSecret); });
  }
  void push_all(const Blocks& blocks, uint32_t epoch = 0) {
    prefill.call([&] {
      for (uint32_t i = 0; i < blocks.source.size(); ++i) {
        prefill.link().push(decode.address(kSecret), blocks.part(i, epoch));
      }
      prefill.link().commit(decode.address(kSecret), blocks.commit(epoch));
    });
  }
  void open(Blocks& blocks, uint32_t epoch = 0, uint32_t first_block = 0) {
    decode.call([&] {
      decode.link().open_landing(blocks.landing(prefill.incarnation(), epoch, first_block));
    });
  }
  // Blocks that live until both links have ended.
  template <typename... Args>
  Blocks& make(Args... args) {
    return store.emplace_back(args...);
  }
  std::deque<Blocks> store;
  Node prefill;
  Node decode;
};

TEST(TcpKvLink, ReportsTheBoundEndpoint) {
  Node node(Node::options("decode-0", 1));
  EXPECT_TRUE(node.link().endpoint().starts_with("tcp://127.0.0.1:"));
  EXPECT_NE(node.link().endpoint(), "tcp://127.0.0.1:0");
}

TEST(TcpKvLink, DeliversPartsInOrderAndTheCommitAfterThem) {
  Pair pair;
  Blocks& blocks = pair.make(5, 8, 3000);
  pair.open(blocks);
  pair.push_all(blocks);
  ASSERT_TRUE(pair.decode.events().wait("commit 5 from 11"));
  const auto log = pair.decode.events().log();
  ASSERT_EQ(log.size(), 9u);
  for (uint32_t i = 0; i < 8; ++i) EXPECT_EQ(log[i], "part 5.0/" + std::to_string(i) + " ok");
  EXPECT_EQ(blocks.target, blocks.source);
  for (const auto& part : pair.decode.events().parts()) {
    EXPECT_EQ(part.num_bytes, 3000u);
    EXPECT_EQ(part.checksum, wire::payload_checksum(blocks.source[part.block].data(), 3000));
  }
  EXPECT_TRUE(pair.prefill.events().wait("sent 5/", 8));
  EXPECT_EQ(pair.prefill.link().counters().sent_bytes, 24'000u);
  EXPECT_EQ(pair.decode.link().counters().received_bytes, 24'000u);
  EXPECT_EQ(pair.decode.link().counters().verified_parts, 8u);
}

TEST(TcpKvLink, CarriesCommittedBack) {
  Pair pair;
  Blocks& blocks = pair.make(5, 1, 100);
  pair.open(blocks);
  pair.push_all(blocks);
  ASSERT_TRUE(pair.decode.events().wait("commit 5"));
  pair.decode.call([&] {
    pair.decode.link().committed(pair.prefill.incarnation(), blocks.grant, Epoch(0));
    pair.decode.link().committed(Incarnation(99), blocks.grant, Epoch(0));  // nobody: ignored
  });
  EXPECT_TRUE(pair.prefill.events().wait("committed 5"));
}

TEST(TcpKvLink, CarriesAHundredBigBlocksOfSeveralGrants) {
  Pair pair;
  for (uint64_t g = 1; g <= 5; ++g) pair.make(g, 20, 700u << 10);
  std::deque<Blocks>& grants = pair.store;
  for (Blocks& blocks : grants) pair.open(blocks);
  for (const Blocks& blocks : grants) pair.push_all(blocks);
  ASSERT_TRUE(pair.decode.events().wait("commit", 5));
  for (const Blocks& blocks : grants) EXPECT_EQ(blocks.target, blocks.source);
  EXPECT_EQ(pair.decode.link().counters().verified_parts, 100u);
  EXPECT_EQ(pair.decode.link().counters().received_bytes, 100u * (700u << 10));
  // Each commit stands behind all parts of its own grant.
  std::map<std::string, int> seen;
  for (const std::string& line : pair.decode.events().log()) {
    if (line.starts_with("part ")) ++seen[line.substr(5, 1)];
    if (line.starts_with("commit ")) {
      EXPECT_EQ(seen[line.substr(7, 1)], 20) << line;
    }
  }
}

TEST(TcpKvLink, AShortGrantIsNotHeldUpByALongOne) {
  TcpLinkOptions slow = Node::options("prefill-0", 11);
  slow.testing.slow_link_bytes_per_s = 20u << 20;
  Pair pair(slow);
  Blocks& large = pair.make(1, 20, 700u << 10);
  Blocks& small = pair.make(2, 1, 1000);
  pair.open(large);
  pair.open(small);
  pair.push_all(large);
  pair.push_all(small);
  ASSERT_TRUE(pair.decode.events().wait("commit 2"));
  size_t num_long_before = 0;
  for (const std::string& line : pair.decode.events().log()) {
    if (line.starts_with("commit 2")) break;
    num_long_before += line.starts_with("part 1") ? 1 : 0;
  }
  EXPECT_LT(num_long_before, 3u);
}

TEST(TcpKvLink, TwoPrefillInstancesPushToOneDecode) {
  Pair pair;
  Node second(Node::options("prefill-1", 12));
  pair.decode.call([&] { pair.decode.link().expect_peer(second.incarnation(), 78); });
  Blocks& a = pair.make(1, 4, 5000);
  Blocks& b = pair.make(2, 4, 5000);
  pair.open(a);
  pair.decode.call([&] { pair.decode.link().open_landing(b.landing(second.incarnation())); });
  pair.push_all(a);
  second.call([&] {
    for (uint32_t i = 0; i < 4; ++i) second.link().push(pair.decode.address(78), b.part(i));
  });
  EXPECT_TRUE(pair.decode.events().wait("part 1.0", 4));
  EXPECT_TRUE(pair.decode.events().wait("part 2.0", 4));
  EXPECT_EQ(a.target, a.source);
  EXPECT_EQ(b.target, b.source);
}

TEST(TcpKvLink, DropForgetsWhatIsQueuedAndTheLinkStaysInStep) {
  TcpLinkOptions slow = Node::options("prefill-0", 11);
  slow.testing.slow_link_bytes_per_s = 2u << 20;
  Pair pair(slow);
  Blocks& dropped = pair.make(1, 10, 700u << 10);
  Blocks& kept = pair.make(2, 2, 20'000);
  pair.open(dropped);
  pair.open(kept);
  pair.push_all(dropped);
  const auto begun = [&] { return pair.prefill.link().counters().sent_bytes > 0; };
  while (!begun()) std::this_thread::yield();  // a part is under way, in pieces
  pair.prefill.call([&] { pair.prefill.link().drop(dropped.grant, Epoch(0)); });
  const size_t sent_before = pair.prefill.events().count("sent 1");
  for (auto& block : dropped.source) std::vector<std::byte>().swap(block);  // no longer read
  pair.push_all(kept);
  ASSERT_TRUE(pair.decode.events().wait("commit 2"));
  EXPECT_EQ(kept.target, kept.source);
  EXPECT_EQ(pair.decode.events().count("commit 1"), 0u);
  EXPECT_EQ(pair.decode.events().count("part 1"), 0u);
  EXPECT_EQ(pair.prefill.events().count("sent 1"), sent_before);
}

TEST(TcpKvLink, ASlowLinkKeepsItsRate) {
  TcpLinkOptions slow = Node::options("prefill-0", 11);
  slow.testing.slow_link_bytes_per_s = 1'000'000;
  Pair pair(slow);
  Blocks& blocks = pair.make(1, 3, 100'000);
  pair.open(blocks);
  const auto start = std::chrono::steady_clock::now();
  pair.push_all(blocks);
  ASSERT_TRUE(pair.decode.events().wait("commit 1"));
  // 300 kB at 1 MB/s; the pause after the last piece isn't waited for.
  EXPECT_GE(to_seconds(std::chrono::steady_clock::now() - start), 0.25);
  EXPECT_EQ(blocks.target, blocks.source);
}

TEST(TcpKvLink, PartsOfACachedPrefixOrWrittenBeforeAreDiscarded) {
  Pair pair;
  Blocks& blocks = pair.make(1, 3, 1000);
  pair.open(blocks, 0, 1);
  pair.push_all(blocks);
  pair.push_all(blocks);
  ASSERT_TRUE(pair.decode.events().wait("commit 1", 2));
  EXPECT_EQ(pair.decode.events().count("part"), 2u);
  EXPECT_TRUE(blocks.untouched(0));
  EXPECT_EQ(pair.decode.link().counters().discarded_parts, 4u);
}

TEST(TcpKvLink, PartsOfAnOldEpochOrUnknownGrantAreDiscarded) {
  Pair pair;
  Blocks& blocks = pair.make(1, 2, 1000);
  Blocks& unknown = pair.make(9, 1, 1000);
  pair.open(blocks, 1);
  pair.push_all(unknown);
  pair.push_all(blocks, 0);
  ASSERT_TRUE(pair.decode.events().wait("commit 1"));
  EXPECT_EQ(pair.decode.events().count("part"), 0u);
  EXPECT_TRUE(blocks.untouched(0));
  pair.push_all(blocks, 1);
  ASSERT_TRUE(pair.decode.events().wait("part 1.1", 2));
  EXPECT_EQ(blocks.target, blocks.source);
}

TEST(TcpKvLink, PartsFromAnotherIncarnationThanGrantedAreDiscarded) {
  Pair pair;
  Blocks& blocks = pair.make(1, 1, 1000);
  pair.decode.call([&] { pair.decode.link().open_landing(blocks.landing(Incarnation(12))); });
  pair.push_all(blocks);
  ASSERT_TRUE(pair.decode.events().wait("commit 1"));
  EXPECT_EQ(pair.decode.events().count("part"), 0u);
  EXPECT_TRUE(blocks.untouched(0));
}

TEST(TcpKvLink, AnIdleLinkUsesNoProcessorTime) {
  Pair pair;
  Blocks& blocks = pair.make(1, 1, 1000);
  pair.open(blocks);
  pair.push_all(blocks);
  ASSERT_TRUE(pair.decode.events().wait("commit 1"));
  const std::clock_t before = std::clock();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_LT(std::clock() - before, CLOCKS_PER_SEC / 20);  // of all threads of this process
}

}  // namespace
}  // namespace tandem::kvlink
