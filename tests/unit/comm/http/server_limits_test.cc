// What is too big, too many or too slow.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "raw_client.h"

namespace tandem::http {
namespace {
using namespace std::chrono_literals;
using testing::HasSubstr;

TEST(HttpLimits, RefusesAnOversizeHeader) {
  TestServer server(echo);
  RawClient client(server.port());
  client.send("GET / HTTP/1.1\r\nHost: x\r\nBig: " + std::string(64u << 10, 'x') + "\r\n\r\n");
  const auto response = client.read_response();
  EXPECT_EQ(response.status, 431);
  EXPECT_THAT(response.body, HasSubstr("larger than 65536 bytes"));
  EXPECT_TRUE(client.sees_end());
}

TEST(HttpLimits, TakesAHeaderJustBelowTheLimit) {
  TestServer server(echo);
  RawClient client(server.port());
  ASSERT_TRUE(client.send("GET / HTTP/1.1\r\nHost: x\r\nBig: " + std::string(65000, 'x') +
                          "\r\n\r\n"));
  EXPECT_EQ(client.read_response().status, 200);
}

TEST(HttpLimits, RefusesTooManyHeaders) {
  TestServer server(echo);
  RawClient client(server.port());
  std::string request = "GET / HTTP/1.1\r\nHost: x\r\n";
  for (int i = 0; i < 10000; ++i) request += "a:\r\n";
  ASSERT_TRUE(client.send(request + "\r\n"));
  const auto response = client.read_response();
  EXPECT_EQ(response.status, 431);
  EXPECT_THAT(response.body, HasSubstr("10001 headers; the limit is 128"));
}

TEST(HttpLimits, RefusesAnAnnouncedOversizeBodyBeforeItComes) {
  TestServer server(echo, {.max_body_bytes = 100});
  RawClient client(server.port());
  ASSERT_TRUE(client.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 101\r\n"
                          "Expect: 100-continue\r\n\r\n"));
  const auto response = client.read_response();
  EXPECT_EQ(response.status, 413);
  EXPECT_THAT(response.body, HasSubstr("larger than 100 bytes"));
  EXPECT_TRUE(client.sees_end());
}

TEST(HttpLimits, AnswersAClientThatIsStillSendingAnOversizeBody) {
  TestServer server(echo, {.max_body_bytes = 1000});
  RawClient client(server.port());
  client.send("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
  const std::string chunk = "400\r\n" + std::string(0x400, 'x') + "\r\n";
  for (int i = 0; i < 200; ++i) client.send(chunk);   // 200 KiB
  EXPECT_EQ(client.read_response().status, 413);
}

TEST(HttpLimits, GivesUpOnASlowHeader) {
  TestServer server(echo, {.header_timeout = 100ms});
  RawClient client(server.port());
  const auto start = std::chrono::steady_clock::now();
  // A byte now and then must not extend the deadline.
  std::thread trickle([&] {
    for (const char byte : std::string("GET / HTTP/1.1\r\nHost: x\r\nA")) {
      if (!client.send(std::string(1, byte))) return;
      std::this_thread::sleep_for(10ms);
    }
  });
  trickle.join();
  EXPECT_EQ(client.read_response().status, 408);
  EXPECT_TRUE(client.sees_end());
  EXPECT_LT(std::chrono::steady_clock::now() - start, 4s);
}

TEST(HttpLimits, ClosesAConnectionThatNeverSays) {
  TestServer server(echo, {.header_timeout = 50ms});
  RawClient client(server.port());
  EXPECT_EQ(client.read_to_end(), "");
  EXPECT_TRUE(client.sees_end());
}

TEST(HttpLimits, GivesUpOnASlowBody) {
  TestServer server(echo, {.body_timeout = 50ms});
  RawClient client(server.port());
  ASSERT_TRUE(client.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhe"));
  const auto response = client.read_response();
  EXPECT_EQ(response.status, 408);
  EXPECT_THAT(response.body, HasSubstr("body"));
}

TEST(HttpLimits, ClosesAnIdleConnectionSilently) {
  TestServer server(echo, {.idle_timeout = 50ms});
  RawClient client(server.port());
  ASSERT_TRUE(client.send(get("/")));
  EXPECT_EQ(client.read_response().status, 200);
  EXPECT_EQ(client.read_to_end(), "");
  EXPECT_TRUE(client.sees_end());
}

TEST(HttpLimits, NoDeadlineRunsWhileARequestIsAnswered) {
  std::unique_ptr<TestServer> server;
  server = std::make_unique<TestServer>(
      [&](const HttpRequest&, ResponseWriterPtr writer) {
        server->loop().after(300ms, [writer] {
          writer->respond(make_response(200, "text/plain", "late"));
        });
      },
      HttpLimits{.header_timeout = 50ms, .body_timeout = 50ms, .idle_timeout = 50ms});
  RawClient client(server->port());
  ASSERT_TRUE(client.send(get("/")));
  EXPECT_EQ(client.read_response().body, "late");
}

TEST(HttpLimits, TurnsAwayConnectionsOverTheLimit) {
  TestServer server(echo, {.max_connections = 2});
  RawClient a(server.port()), b(server.port());
  while (server.stats().open < 2) std::this_thread::sleep_for(1ms);
  RawClient c(server.port());
  ASSERT_TRUE(c.send(get("/")));
  const auto response = c.read_response();
  EXPECT_EQ(response.status, 503);
  EXPECT_THAT(response.head, HasSubstr("Retry-After: 1\r\n"));
  EXPECT_TRUE(c.sees_end());
  c.close();
  a.close();
  while (server.stats().open > 1) std::this_thread::sleep_for(1ms);
  RawClient d(server.port());
  ASSERT_TRUE(d.send(get("/")));
  EXPECT_EQ(d.read_response().status, 200);
  EXPECT_EQ(server.stats().refused, 1u);
}

TEST(HttpLimits, LeavesNoDescriptorsBehind) {
  TestServer server(echo);
  const auto visit = [&](int kind) {
    RawClient client(server.port());
    if (kind == 0) client.send("GET / HT");
    if (kind == 1) client.send(get("/"));
    if (kind == 2) {
      client.send(get("/"));
      client.read_response();
    }
    if (kind == 3) client.send("rubbish\r\n\r\n");
  };
  visit(2);
  ASSERT_TRUE(server.all_closed());
  const size_t before = count_descriptors();
  for (int i = 0; i < 100; ++i) visit(i % 5);
  while (server.stats().accepted < 101) std::this_thread::sleep_for(1ms);
  ASSERT_TRUE(server.all_closed());
  EXPECT_EQ(count_descriptors(), before);
}

}  // namespace
}  // namespace tandem::http
