#include "cli/client/sse.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tandem::client {
namespace {

using Events = std::vector<std::string>;

TEST(SseReader, GivesTheDataOfWholeEventsWhereverThePiecesAreCut) {
  const std::string stream =
      "data: one\n\n: comment\nevent: x\ndata:two\r\n\r\ndata: a\ndata: b\n\ndata: [DONE]\n\n";
  const Events expected{"one", "two", "a\nb", "[DONE]"};
  for (size_t cut = 0; cut <= stream.size(); ++cut) {
    SseReader reader;
    Events events = reader.feed(stream.substr(0, cut));
    for (std::string& event : reader.feed(stream.substr(cut))) events.push_back(event);
    EXPECT_EQ(events, expected) << "cut at " << cut;
  }
}

TEST(SseReader, HoldsBackAnUnfinishedEvent) {
  SseReader reader;
  EXPECT_EQ(reader.feed("data: half\n"), Events{});
  EXPECT_EQ(reader.feed("\n"), Events{"half"});
}

TEST(SseReader, IgnoresEventsWithoutData) {
  SseReader reader;
  EXPECT_EQ(reader.feed("\n\nevent: ping\n\nid: 3\n\n"), Events{});
}

}  // namespace
}  // namespace tandem::client
