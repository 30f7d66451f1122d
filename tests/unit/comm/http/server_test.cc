// Requests and whole responses.
#include "comm/http/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "raw_client.h"

namespace tandem::http {
namespace {
using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::Not;

TEST(HttpServer, AnswersManyRequestsOnOneConnection) {
  TestServer server(echo);
  RawClient client(server.port());
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(client.send(get("/n/" + std::to_string(i) + "?a=1&b")));
    const auto response = client.read_response();
    EXPECT_EQ(response.status, 200);
    EXPECT_EQ(response.body, "GET /n/" + std::to_string(i) + "?a=1&b");
    EXPECT_THAT(response.head, HasSubstr("Content-Type: text/plain\r\n"));
    EXPECT_THAT(response.head, HasSubstr("\r\nDate: "));
    EXPECT_THAT(response.head, Not(HasSubstr("Connection: close")));
  }
  EXPECT_EQ(server.stats().accepted, 1u);
  EXPECT_EQ(server.stats().requests, 3u);
}

TEST(HttpServer, AnswersPipelinedRequestsInOrder) {
  // Answers come from timers, the first one last: order must still hold.
  std::unique_ptr<TestServer> server;
  server = std::make_unique<TestServer>([&](const HttpRequest& request, ResponseWriterPtr writer) {
    const Duration wait = request.path == "/1" ? 50ms : 1ms;
    server->loop().after(wait, [path = request.path, writer] {
      writer->respond(make_response(200, "text/plain", path));
    });
  });
  RawClient client(server->port());
  ASSERT_TRUE(client.send(get("/1") + get("/2") + get("/3")));
  for (const char* path : {"/1", "/2", "/3"}) EXPECT_EQ(client.read_response().body, path);
}

TEST(HttpServer, ReadsBodiesByLengthAndInChunks) {
  TestServer server(echo);
  RawClient client(server.port());
  ASSERT_TRUE(client.send("POST /b HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello"));
  EXPECT_EQ(client.read_response().body, "POST /b hello");
  ASSERT_TRUE(client.send("POST /b HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
                          "3\r\nabc\r\n"));
  std::this_thread::sleep_for(20ms);
  ASSERT_TRUE(client.send("8;note=1\r\n, de"));
  std::this_thread::sleep_for(20ms);
  ASSERT_TRUE(client.send("fghi\r\n0\r\n\r\n" + get("/next")));
  EXPECT_EQ(client.read_response().body, "POST /b abc, defghi");
  EXPECT_EQ(client.read_response().body, "GET /next");
}

TEST(HttpServer, ReadsARequestThatComesByteByByte) {
  TestServer server(echo);
  RawClient client(server.port());
  const std::string request = "POST /b HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nok";
  for (const char byte : request) {
    ASSERT_TRUE(client.send(std::string(1, byte)));
    std::this_thread::sleep_for(100us);
  }
  EXPECT_EQ(client.read_response().body, "POST /b ok");
}

TEST(HttpServer, AnswersHeadWithoutABody) {
  TestServer server(echo);
  RawClient client(server.port());
  ASSERT_TRUE(client.send("HEAD /h HTTP/1.1\r\nHost: x\r\n\r\n" + get("/after")));
  const auto head = client.read_response(/*with_body=*/false);
  EXPECT_EQ(head.status, 200);
  EXPECT_THAT(head.head, HasSubstr("Content-Length: 7\r\n"));   // of "HEAD /h"
  EXPECT_EQ(client.read_response().body, "GET /after");
}

TEST(HttpServer, InvitesABodyThatWaitsForContinue) {
  TestServer server(echo);
  RawClient client(server.port());
  ASSERT_TRUE(client.send("POST /b HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n"
                          "Expect: 100-continue\r\n\r\n"));
  EXPECT_EQ(client.read_until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  ASSERT_TRUE(client.send("ok"));
  EXPECT_EQ(client.read_response().body, "POST /b ok");
}

TEST(HttpServer, ClosesWhenTheClientAsksForIt) {
  TestServer server(echo);
  for (const char* request : {"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
                              "GET / HTTP/1.0\r\n\r\n"}) {
    RawClient client(server.port());
    ASSERT_TRUE(client.send(request));
    const auto response = client.read_response();
    EXPECT_EQ(response.status, 200);
    EXPECT_THAT(response.head, HasSubstr("Connection: close\r\n"));
    EXPECT_TRUE(client.sees_end());
  }
}

TEST(HttpServer, RefusesWhatIsNotHttp) {
  TestServer server(echo);
  for (const char* bad :
       {"nonsense\r\n\r\n", "GET / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: x\r\nBad Name: 1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: x\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"}) {
    RawClient client(server.port());
    ASSERT_TRUE(client.send(bad));
    const auto response = client.read_response();
    EXPECT_EQ(response.status, 400) << bad;
    EXPECT_THAT(response.body, HasSubstr("\"error\"")) << bad;
    EXPECT_TRUE(client.sees_end()) << bad;
  }
  EXPECT_EQ(server.stats().bad_requests, 7u);
  EXPECT_EQ(server.stats().requests, 0u);
}

TEST(HttpServer, KeepsLineBreaksOutOfHeaders) {
  TestServer server([](const HttpRequest&, ResponseWriterPtr writer) {
    HttpResponse response = make_response(200, "text/plain", "");
    response.headers.push_back({"X-Id", "a\r\nSet-Cookie: b"});
    writer->respond(response);
  });
  RawClient client(server.port());
  ASSERT_TRUE(client.send(get("/")));
  EXPECT_THAT(client.read_response().head, HasSubstr("X-Id: a  Set-Cookie: b\r\n"));
}

TEST(HttpServer, CutsTheConnectionOfAForgottenRequest) {
  TestServer server([](const HttpRequest&, ResponseWriterPtr) {});   // drops the writer
  RawClient client(server.port());
  ASSERT_TRUE(client.send(get("/")));
  EXPECT_TRUE(client.sees_end());
  EXPECT_TRUE(server.all_closed());
}

TEST(HttpServer, NamesTheAddressItCannotBind) {
  TestServer server(echo);
  AsioLoop loop;
  const auto refusal = [&](HttpServerOptions options) -> std::string {
    try {
      HttpServer second(loop, options, echo);
    } catch (const StartupError& error) {
      return error.what();
    }
    return "nothing thrown";
  };
  EXPECT_EQ(refusal({.address = "127.0.0.1", .port = server.port()}),
            "can't serve HTTP on 127.0.0.1:" + std::to_string(server.port()) +
                ": address already in use; choose another port, or 0 for any free one");
  EXPECT_THAT(refusal({.address = "192.0.2.1", .port = 0}),
              HasSubstr("no such address on this machine"));
  EXPECT_THAT(refusal({.address = "example", .port = 0}), HasSubstr("not a numeric address"));
}

TEST(HttpServer, DrainFinishesWhatRunsAndAcceptsNoMore) {
  ResponseWriterPtr waiting;
  TestServer server([&](const HttpRequest&, ResponseWriterPtr writer) { waiting = writer; });
  const uint16_t port = server.port();
  RawClient idle(port);
  RawClient busy(port);
  ASSERT_TRUE(busy.send(get("/")));
  while (server.stats().requests == 0) std::this_thread::sleep_for(1ms);
  server.call([&] { server.server().drain(); });
  EXPECT_TRUE(idle.sees_end());
  EXPECT_FALSE(RawClient(port).connected());
  server.call([&] {
    waiting->respond(make_response(200, "text/plain", "done"));
    waiting.reset();
  });
  EXPECT_EQ(busy.read_response().body, "done");
  EXPECT_TRUE(busy.sees_end());
}

TEST(HttpThread, ServesFromAThreadOfItsOwn) {
  HttpThread http({}, echo);
  RawClient client(http.port());
  ASSERT_TRUE(client.send(get("/metrics")));
  EXPECT_EQ(client.read_response().body, "GET /metrics");
  EXPECT_EQ(http.url(), "http://127.0.0.1:" + std::to_string(http.port()));
}

}  // namespace
}  // namespace tandem::http
