#include "comm/http/message.h"

#include <gtest/gtest.h>

#include "comm/http/server.h"

namespace tandem::http {
namespace {

TEST(HttpRequest, FindsHeadersWithoutCase) {
  HttpRequest request;
  request.headers = {{"Content-Type", "a"}, {"X-Id", "1"}, {"x-id", "2"}};
  EXPECT_EQ(request.header("content-type"), "a");
  EXPECT_EQ(request.header("X-ID"), "1");
  EXPECT_EQ(request.header("X"), "");
}

TEST(MakeError, EscapesTheMessage) {
  const HttpResponse response = make_error(400, "a \"b\"\\\n\x01 é");
  EXPECT_EQ(response.status, 400);
  EXPECT_EQ(response.body,
            "{\"error\":{\"message\":\"a \\\"b\\\"\\\\\\u000a\\u0001 é\","
            "\"type\":\"invalid_request_error\",\"param\":null,\"code\":null}}");
  EXPECT_NE(make_error(503, "x").body.find("server_error"), std::string::npos);
}

TEST(ParseHttpAddress, AcceptsAddressesAndRefusesTheRest) {
  const auto v4 = parse_http_address("127.0.0.1:8000");
  ASSERT_TRUE(v4.ok());
  EXPECT_EQ(v4->address, "127.0.0.1");
  EXPECT_EQ(v4->port, 8000);
  const auto v6 = parse_http_address("[::1]:0");
  ASSERT_TRUE(v6.ok());
  EXPECT_EQ(v6->address, "::1");
  EXPECT_EQ(v6->port, 0);
  for (const char* bad : {"", "8000", ":8000", "127.0.0.1", "127.0.0.1:", "127.0.0.1:80x",
                          "127.0.0.1:65536", "127.0.0.1:-1", "::1:80"}) {
    EXPECT_FALSE(parse_http_address(bad).ok()) << bad;
  }
}

}  // namespace
}  // namespace tandem::http
