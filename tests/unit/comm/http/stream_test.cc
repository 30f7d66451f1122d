// Streamed responses: chunks, back-pressure, clients that leave or stop reading.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "raw_client.h"

namespace tandem::http {
namespace {
using namespace std::chrono_literals;
using testing::HasSubstr;

const Headers kSse = {{"Content-Type", "text/event-stream"}};

TEST(HttpStream, SendsChunksAsTheyAreWrittenAndKeepsTheConnection) {
  ResponseWriterPtr writer;
  TestServer server([&](const HttpRequest&, ResponseWriterPtr given) {
    writer = std::move(given);
    writer->begin_stream(200, kSse);
  });
  RawClient client(server.port());
  for (int round = 0; round < 2; ++round) {
    ASSERT_TRUE(client.send(get("/")));
    const std::string head = client.read_until("\r\n\r\n");
    EXPECT_THAT(head, HasSubstr("Transfer-Encoding: chunked\r\n"));
    EXPECT_THAT(head, HasSubstr("Content-Type: text/event-stream\r\n"));
    for (const char* event : {"data: 1\n\n", "data: 2\n\n"}) {
      server.call([&] {
        writer->write(event);
        EXPECT_EQ(writer->pending_bytes(), 0u);   // the socket had room
      });
      EXPECT_EQ(client.read_chunk(), event);
    }
    server.call([&] {
      writer->write("");   // must not look like the last chunk
      writer->end();
      EXPECT_FALSE(writer->closed());
      writer.reset();
    });
    EXPECT_EQ(client.read_until("\r\n\r\n"), "0\r\n\r\n");
  }
}

TEST(HttpStream, EndsByClosingForHttp10) {
  TestServer server([](const HttpRequest&, ResponseWriterPtr writer) {
    writer->begin_stream(200, kSse);
    writer->write("plain ");
    writer->write("bytes");
    writer->end();
  });
  RawClient client(server.port());
  ASSERT_TRUE(client.send("GET / HTTP/1.0\r\n\r\n"));
  const std::string all = client.read_to_end();
  EXPECT_TRUE(all.ends_with("\r\n\r\nplain bytes")) << all;
}

TEST(HttpStream, TellsWhenTheClientLeavesDuringAStream) {
  ResponseWriterPtr writer;
  std::atomic<bool> told{false};
  TestServer server([&](const HttpRequest&, ResponseWriterPtr given) {
    writer = std::move(given);
    writer->on_closed([&] { told = true; });
    writer->begin_stream(200, kSse);
  });
  {
    RawClient client(server.port());
    ASSERT_TRUE(client.send(get("/")));
    client.read_until("\r\n\r\n");
    EXPECT_FALSE(told);
  }
  for (int i = 0; i < 200 && !told; ++i) std::this_thread::sleep_for(5ms);
  EXPECT_TRUE(told);   // within a second, without a byte being written
  server.call([&] {
    EXPECT_TRUE(writer->closed());
    writer->write("into the void");
    EXPECT_EQ(writer->pending_bytes(), 0u);
    writer->end();
    told = false;
    writer->on_closed([&] { told = true; });
    EXPECT_FALSE(told);   // posted, not called
    writer.reset();
  });
  server.call([] {});
  EXPECT_TRUE(told);
}

TEST(HttpStream, TellsWhenTheClientLeavesBeforeTheResponse) {
  ResponseWriterPtr writer;
  std::atomic<int> told{0};
  TestServer server([&](const HttpRequest&, ResponseWriterPtr given) {
    writer = std::move(given);
    writer->on_closed([&] { ++told; });
  });
  {
    RawClient client(server.port());
    ASSERT_TRUE(client.send(get("/")));
    while (server.stats().requests == 0) std::this_thread::sleep_for(1ms);
  }
  for (int i = 0; i < 200 && told == 0; ++i) std::this_thread::sleep_for(5ms);
  EXPECT_EQ(told, 1);
  server.call([&] {
    writer->respond(make_response(200, "text/plain", "late"));   // harmless
    writer.reset();
  });
}

TEST(HttpStream, SaysNothingAboutAClientThatLeavesAfterTheResponse) {
  std::atomic<int> told{0};
  TestServer server([&](const HttpRequest&, ResponseWriterPtr writer) {
    writer->on_closed([&] { ++told; });
    writer->respond(make_response(200, "text/plain", "x"));
  });
  {
    RawClient client(server.port());
    ASSERT_TRUE(client.send(get("/")));
    EXPECT_EQ(client.read_response().body, "x");
  }
  ASSERT_TRUE(server.all_closed());
  server.call([] {});
  EXPECT_EQ(told, 0);
}

TEST(HttpStream, AbortLeavesTheClientWithAnUnfinishedStream) {
  std::atomic<int> told{0};
  TestServer server([&](const HttpRequest&, ResponseWriterPtr writer) {
    writer->on_closed([&] { ++told; });
    writer->begin_stream(200, kSse);
    writer->write("half");
    writer->abort();
    EXPECT_EQ(told, 0);   // posted
  });
  RawClient client(server.port());
  ASSERT_TRUE(client.send(get("/")));
  const std::string all = client.read_to_end();
  EXPECT_FALSE(all.ends_with("0\r\n\r\n"));
  EXPECT_TRUE(client.sees_end());
  for (int i = 0; i < 200 && told == 0; ++i) std::this_thread::sleep_for(5ms);
  EXPECT_EQ(told, 1);
}

// A producer that keeps at most `kBound` bytes queued and goes on when they are taken.
class BoundedProducer : public std::enable_shared_from_this<BoundedProducer> {
 public:
  static constexpr size_t kBound = 64u << 10;
  static constexpr size_t kPiece = 8u << 10;

  BoundedProducer(ResponseWriterPtr writer, size_t total)
      : writer_(std::move(writer)), left_(total) {}
  void run() {
    writer_->begin_stream(200, kSse);
    writer_->on_drained([self = shared_from_this()] {
      ++self->num_drained;
      self->produce();
    });
    produce();
  }
  size_t max_pending = 0;
  size_t num_drained = 0;

 private:
  void produce() {
    while (left_ > 0 && writer_->pending_bytes() < kBound) {
      writer_->write(std::string(kPiece, 'x'));
      left_ -= kPiece;
      max_pending = std::max(max_pending, writer_->pending_bytes());
    }
    if (left_ == 0 && !ended_) {
      ended_ = true;
      writer_->end();
    }
  }
  ResponseWriterPtr writer_;
  size_t left_;
  bool ended_ = false;
};

TEST(HttpStream, BackPressureBoundsWhatIsQueued) {
  constexpr size_t kTotal = 16u << 20;
  std::shared_ptr<BoundedProducer> producer;
  TestServer server([&](const HttpRequest&, ResponseWriterPtr writer) {
    producer = std::make_shared<BoundedProducer>(std::move(writer), kTotal);
    producer->run();
  });
  RawClient client(server.port(), /*receive_buffer=*/16384);
  ASSERT_TRUE(client.send(get("/")));
  std::this_thread::sleep_for(100ms);   // nobody reads: the producer must have stopped
  server.call([&] { EXPECT_GT(producer->max_pending, 0u); });
  const auto response = client.read_response();
  EXPECT_EQ(response.body.size(), kTotal);
  server.call([&] {
    EXPECT_LT(producer->max_pending, BoundedProducer::kBound + 2 * BoundedProducer::kPiece);
    EXPECT_GT(producer->num_drained, 0u);
    producer.reset();
  });
}

TEST(HttpStream, SlowClientDelaysOnlyItselfAndIsCutOff) {
  std::atomic<int> told{0};
  TestServer server(
      [&](const HttpRequest& request, ResponseWriterPtr writer) {
        if (request.path != "/big") return echo(request, writer);
        writer->on_closed([&told, writer] { ++told; });
        writer->begin_stream(200, kSse);
        writer->write(std::string(64u << 20, 'x'));
        EXPECT_GT(writer->pending_bytes(), 0u);
      },
      {.client_stall = 300ms});
  RawClient slow(server.port(), /*receive_buffer=*/16384);
  ASSERT_TRUE(slow.send(get("/big")));
  while (server.stats().requests == 0) std::this_thread::sleep_for(1ms);
  RawClient quick(server.port());
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(quick.send(get("/quick")));
    ASSERT_EQ(quick.read_response().body, "GET /quick");
  }
  EXPECT_EQ(told, 0);
  for (int i = 0; i < 400 && told == 0; ++i) std::this_thread::sleep_for(5ms);
  EXPECT_EQ(told, 1);
  EXPECT_EQ(server.stats().stalled, 1u);
  ASSERT_TRUE(quick.send(get("/still")));
  EXPECT_EQ(quick.read_response().body, "GET /still");
}

TEST(HttpStream, CarriesManyStreamsAtOnce) {
  constexpr int kStreams = 200;
  constexpr int kEvents = 5;
  std::unique_ptr<TestServer> server;
  std::function<void(ResponseWriterPtr, int)> tick = [&](ResponseWriterPtr writer, int n) {
    if (n == kEvents) return writer->end();
    writer->write("data: " + std::to_string(n) + "\n\n");
    server->loop().after(2ms, [&tick, writer, n] { tick(writer, n + 1); });
  };
  server = std::make_unique<TestServer>([&](const HttpRequest&, ResponseWriterPtr writer) {
    writer->begin_stream(200, kSse);
    tick(std::move(writer), 0);
  });
  const size_t before = count_descriptors();
  {
    std::vector<std::unique_ptr<RawClient>> clients;
    for (int i = 0; i < kStreams; ++i) {
      clients.push_back(std::make_unique<RawClient>(server->port()));
      ASSERT_TRUE(clients.back()->send(get("/")));
    }
    for (const auto& client : clients) {
      EXPECT_EQ(client->read_response().body,
                "data: 0\n\ndata: 1\n\ndata: 2\n\ndata: 3\n\ndata: 4\n\n");
    }
    EXPECT_EQ(server->stats().open, 200u);
  }
  EXPECT_TRUE(server->all_closed());
  EXPECT_EQ(count_descriptors(), before);
}

TEST(HttpStream, EndOfTheServerClosesItsStreams) {
  ResponseWriterPtr writer;
  AsioLoop loop;
  auto server = std::make_unique<HttpServer>(loop, HttpServerOptions{},
                                             [&](const HttpRequest&, ResponseWriterPtr given) {
                                               writer = std::move(given);
                                               writer->begin_stream(200, kSse);
                                               loop.stop();
                                             });
  RawClient client(server->port());
  ASSERT_TRUE(client.send(get("/")));
  loop.run();
  bool told = false;
  writer->on_closed([&] { told = true; });
  server.reset();
  EXPECT_TRUE(writer->closed());
  loop.stop();
  loop.run();
  EXPECT_TRUE(told);
  EXPECT_TRUE(client.sees_end());
}

}  // namespace
}  // namespace tandem::http
