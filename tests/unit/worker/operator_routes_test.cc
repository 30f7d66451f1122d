#include "worker/operator_routes.h"

#include <gmock/gmock.h>

namespace tandem::worker {
namespace {

using testing::HasSubstr;

struct OperatorRoutes : testing::Test {
  http::HttpResponse get(const std::string& path, const std::string& method = "GET") {
    http::HttpRequest request;
    request.method = method;
    request.path = path;
    return answer({.registry = registry,
                   .refresh_gauges = [this] { gauge.set(++num_refreshed); },
                   .joined = [this] { return joined; },
                   .stalled = [this] { return stalled; }},
                  request);
  }

  telemetry::MetricsRegistry registry;
  telemetry::Gauge gauge = registry.gauge("tandem_step_age_seconds", "Age.");
  int num_refreshed = 0;
  bool joined = true;
  bool stalled = false;
};

TEST_F(OperatorRoutes, MetricsAreRefreshedBeforeEveryScrape) {
  EXPECT_THAT(get("/metrics").body, HasSubstr("tandem_step_age_seconds 1"));
  EXPECT_THAT(get("/metrics").body, HasSubstr("tandem_step_age_seconds 2"));
}

TEST_F(OperatorRoutes, HealthTellsAStalledStep) {
  EXPECT_EQ(get("/health").status, 200);
  stalled = true;
  EXPECT_EQ(get("/health").status, 503);
}

TEST_F(OperatorRoutes, AnInstanceThatJoinsIsHealthy) {
  joined = false;
  EXPECT_EQ(get("/health").status, 200);
  EXPECT_THAT(get("/health").body, HasSubstr("joining"));
}

TEST_F(OperatorRoutes, OtherRoutesAndMethodsAreRefused) {
  EXPECT_EQ(get("/v1/models").status, 404);
  EXPECT_EQ(get("/metrics", "POST").status, 405);
  EXPECT_EQ(get("/health", "HEAD").status, 200);
  EXPECT_EQ(num_refreshed, 0);
}

}  // namespace
}  // namespace tandem::worker
