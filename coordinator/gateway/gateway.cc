#include "coordinator/gateway/gateway.h"

#include <chrono>
#include <optional>
#include <utility>

#include "coordinator/gateway/api_error.h"
#include "coordinator/gateway/json_writer.h"
#include "coordinator/gateway/response_text.h"

namespace tandem::gateway {
namespace {

using http::HttpRequest;
using telemetry::HttpRoute;

int64_t wall_clock_s() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::seconds>(now).count();
}

http::HttpResponse json_response(int status, std::string body) {
  return http::make_response(status, "application/json", std::move(body));
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// RFC 3986 %XX; malformed escapes stay as they are.
std::string percent_decode(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool escape = text[i] == '%' && i + 2 < text.size();
    const int high = escape ? hex_digit(text[i + 1]) : -1;
    const int low = escape ? hex_digit(text[i + 2]) : -1;
    if (high < 0 || low < 0) {
      out += text[i];
    } else {
      out += static_cast<char>(high * 16 + low);
      i += 2;
    }
  }
  return out;
}

enum class Target {
  kChat, kCompletion, kModels, kModel, kHealth, kReady, kMetrics, kCluster, kDrain, kUnknown
};

struct Route {
  const char* path;
  bool post;            // else GET and HEAD
  HttpRoute label;
  Target target;
};

constexpr Route kRoutes[] = {
    {"/v1/chat/completions", true, HttpRoute::kChatCompletions, Target::kChat},
    {"/v1/completions", true, HttpRoute::kCompletions, Target::kCompletion},
    {"/v1/models", false, HttpRoute::kModels, Target::kModels},
    {"/health", false, HttpRoute::kHealth, Target::kHealth},
    {"/ready", false, HttpRoute::kReady, Target::kReady},
    {"/metrics", false, HttpRoute::kMetrics, Target::kMetrics},
    {"/admin/cluster", false, HttpRoute::kAdmin, Target::kCluster},
    {"/admin/drain", true, HttpRoute::kAdmin, Target::kDrain},
};
constexpr std::string_view kModelPrefix = "/v1/models/";

Route find_route(std::string_view path) {
  for (const Route& route : kRoutes) {
    if (path == route.path) return route;
  }
  if (path.size() > kModelPrefix.size() && path.starts_with(kModelPrefix)) {
    return {"", false, HttpRoute::kModels, Target::kModel};
  }
  return {"", false, HttpRoute::kOther, Target::kUnknown};
}

bool method_allowed(const Route& route, const std::string& method) {
  return route.post ? method == "POST" : method == "GET" || method == "HEAD";
}

request::Sampling sampling_of(const ApiRequest& request, Rng& rng) {
  return {.temperature = request.temperature,
          .top_k = request.top_k,
          .top_p = request.top_p,
          .min_p = request.min_p,
          .seed = request.seed ? *request.seed : rng.next(),
          .num_logprobs = -1};
}

}  // namespace

Gateway::Gateway(GatewayDeps deps, GatewayOptions options)
    : deps_(std::move(deps)),
      options_(std::move(options)),
      context_{.loop = deps_.loop,
               .service = deps_.service,
               .tokenizer = deps_.model.tokenizer,
               .metrics = deps_.metrics,
               .log = deps_.log,
               .max_pending_bytes = options_.max_pending_bytes},
      max_bytes_per_token_(max_token_bytes(deps_.model.tokenizer)),
      started_unix_s_(unix_time_s()) {}

Gateway::~Gateway() {
  for (const auto& [key, call] : calls_) call->abandon();
}

void Gateway::handle(const HttpRequest& request, http::ResponseWriterPtr writer) {
  const Route route = find_route(request.path);
  std::string request_id = sanitised_request_id(request.header("x-request-id"));
  if (request_id.empty()) request_id = random_id("req-");
  Reply reply(std::move(writer), route.label, std::move(request_id), deps_.metrics);
  if (route.target == Target::kUnknown) {
    return reply.send(error_response({.status = 404,
                                      .message = "no such route",
                                      .type = "invalid_request_error",
                                      .param = {},
                                      .code = "route_not_found"}));
  }
  if (!method_allowed(route, request.method)) {
    return reply.send(http::make_method_not_allowed(route.post ? "POST" : "GET, HEAD"));
  }
  switch (route.target) {
    case Target::kChat: return complete(Endpoint::kChat, request, std::move(reply));
    case Target::kCompletion: return complete(Endpoint::kCompletion, request, std::move(reply));
    case Target::kModels: return models(std::move(reply));
    case Target::kModel:
      return model(std::string_view(request.path).substr(kModelPrefix.size()), std::move(reply));
    case Target::kHealth: return health(std::move(reply));
    case Target::kReady: return ready(std::move(reply));
    case Target::kMetrics: return metrics(std::move(reply));
    case Target::kCluster: return reply.send(json_response(200, deps_.service.cluster_json()));
    case Target::kDrain: return drain(std::move(reply));
    case Target::kUnknown: break;
  }
}

void Gateway::complete(Endpoint endpoint, const HttpRequest& http_request, Reply reply) {
  const auto vocabulary_size =
      static_cast<uint32_t>(deps_.model.tokenizer.vocabulary().size());
  const auto parsed = parse_api_request(endpoint, http_request.body, options_.model_alias,
                                        vocabulary_size);
  if (!parsed.ok()) return reply.send(error_response(request_error(parsed.error())));
  auto prompt = build_prompt(*parsed, deps_.model, max_bytes_per_token_, unix_time_s());
  if (!prompt.ok()) return reply.send(error_response(request_error(prompt.error())));
  const uint32_t pool_tokens = deps_.service.readiness().max_request_tokens;
  const auto max_tokens =
      resolve_max_tokens(*parsed, prompt->size(), deps_.model.max_context, pool_tokens);
  if (!max_tokens.ok()) return reply.send(error_response(request_error(max_tokens.error())));
  request::Request request{.prompt = *std::move(prompt),
                           .max_tokens = *max_tokens,
                           .sampling = sampling_of(*parsed, deps_.rng),
                           .stop_ids = parsed->stop_token_ids,
                           .ignore_eos = parsed->ignore_eos,
                           .client_id = reply.request_id()};
  start_call(*parsed, std::move(request), std::move(reply));
}

void Gateway::start_call(const ApiRequest& options, request::Request request, Reply reply) {
  const bool chat = options.endpoint == Endpoint::kChat;
  AnswerHead head{.endpoint = options.endpoint,
                  .id = random_id(chat ? "chatcmpl-" : "cmpl-"),
                  .model = options_.model_alias,
                  .created_s = unix_time_s(),
                  .usage_key = options.include_usage,
                  .with_token_ids = options.return_token_ids};
  auto call = std::make_shared<Call>(context_, options, std::move(head), std::move(reply),
                                     [this](Call& over) {
    const auto at = calls_.find(&over);
    CHECK(at != calls_.end());
    // The call is still inside one of its methods: its last reference goes with the handler.
    deps_.loop.post([last = std::move(at->second)] {});
    calls_.erase(at);
  });
  calls_.emplace(call.get(), call);
  call->start(std::move(request));
}

int64_t Gateway::unix_time_s() const {
  return options_.unix_time_s ? options_.unix_time_s() : wall_clock_s();
}

std::string Gateway::model_json() const {
  JsonWriter json;
  json.begin_object();
  json.key("id").string(options_.model_alias);
  json.key("object").string("model");
  json.key("created").integer(started_unix_s_);
  json.key("owned_by").string("tandem");
  json.key("max_model_len").unsigned_integer(deps_.model.max_context);
  json.end_object();
  return std::move(json).take();
}

void Gateway::models(Reply reply) {
  JsonWriter json;
  json.begin_object().key("object").string("list");
  json.key("data").begin_array().raw(model_json()).end_array().end_object();
  reply.send(json_response(200, std::move(json).take()));
}

void Gateway::model(std::string_view id, Reply reply) {
  if (percent_decode(id) == options_.model_alias) {
    return reply.send(json_response(200, model_json()));
  }
  reply.send(error_response(request_error(
      {ErrorCode::kNotFound, "this server has only \"" + options_.model_alias + "\"", "model"})));
}

void Gateway::health(Reply reply) {
  const request::Readiness state = deps_.service.readiness();
  ever_ready_ = ever_ready_ || state.ready;
  // Starting and draining are healthy: restarting the process would not help.
  const bool broken = ever_ready_ && !state.ready && !state.draining;
  const char* status = "ok";
  if (state.draining) status = "draining";
  if (!state.ready && !state.draining) status = broken ? "unavailable" : "starting";
  JsonWriter json;
  json.begin_object().key("status").string(status);
  if (!state.why.empty()) json.key("why").string(state.why);
  json.end_object();
  reply.send(json_response(broken ? 503 : 200, std::move(json).take()));
}

void Gateway::ready(Reply reply) {
  const request::Readiness state = deps_.service.readiness();
  ever_ready_ = ever_ready_ || state.ready;
  const bool ok = state.ready && !state.draining;
  JsonWriter json;
  json.begin_object().key("ready").boolean(ok);
  json.key("all_instances").boolean(state.all_instances);
  json.key("draining").boolean(state.draining);
  json.key("why").string(state.why);
  json.end_object();
  http::HttpResponse response = json_response(ok ? 200 : 503, std::move(json).take());
  if (!ok) response.headers.push_back({"Retry-After", "1"});
  reply.send(std::move(response));
}

void Gateway::metrics(Reply reply) {
  if (options_.before_scrape) options_.before_scrape();
  reply.send(http::make_response(200, telemetry::kMetricsContentType, deps_.registry.text()));
}

void Gateway::drain(Reply reply) {
  deps_.log.info("drain_requested", {{"client_id", reply.request_id()}});
  deps_.service.drain();
  reply.send(json_response(202, "{\"draining\":true}"));
}

std::string Gateway::random_id(const char* prefix) {
  std::string id = prefix;
  for (uint64_t half : {deps_.rng.next(), deps_.rng.next()}) {
    for (int i = 0; i < 12; ++i, half >>= 4) id += "0123456789abcdef"[half & 15];
  }
  return id;
}

}  // namespace tandem::gateway
