#include "fixture.h"

#include <algorithm>

namespace tandem::gateway {
namespace {

// The characters GPT-2 writes bytes with: printable Latin-1 for itself, the rest from U+0100 on.
std::vector<std::string> byte_spellings() {
  std::vector<std::string> spellings;
  uint32_t next = 0x100;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const bool printable =
        (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    std::string spelling;
    tokenizer::append_utf8(printable ? byte : next++, spelling);
    spellings.push_back(spelling);
  }
  return spellings;
}

}  // namespace

tokenizer::Tokenizer byte_tokenizer(bool add_bos) {
  tokenizer::VocabularyData data;
  data.model = "gpt2";
  data.pre = "smollm";
  data.tokens = byte_spellings();
  data.types.assign(256, tokenizer::TokenType::kNormal);
  for (const char* control : {"<s>", "</s>", "<|im_start|>", "<|im_end|>"}) {
    data.tokens.push_back(control);
    data.types.push_back(tokenizer::TokenType::kControl);
  }
  data.bos = kBos;
  data.eos = kEos;
  data.add_bos = add_bos;
  auto tokenizer = tokenizer::Tokenizer::create(std::move(data));
  CHECK(tokenizer.ok());
  return std::move(tokenizer).value();
}

chat_template::ChatTemplate toy_template() {
  auto parsed = chat_template::ChatTemplate::parse(
      "{% for m in messages %}"
      "{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>' + '\n' }}"
      "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}");
  CHECK(parsed.ok());
  return std::move(parsed).value();
}

std::vector<uint32_t> bytes_of(std::string_view text) {
  std::vector<uint32_t> ids;
  for (const char c : text) ids.push_back(static_cast<uint8_t>(c));
  return ids;
}

request::Readiness ready_state() {
  request::Readiness state;
  state.ready = true;
  state.all_instances = true;
  return state;
}

request::Readiness unready_state(const std::string& why) {
  request::Readiness state;
  state.why = why;
  return state;
}

request::Readiness draining_state() {
  request::Readiness state;
  state.draining = true;
  return state;
}

Result<RequestId> FakeService::submit(request::Request request, request::Observer& observer) {
  if (refuse) return *refuse;
  submitted.push_back({std::move(request), &observer});
  if (on_submit) loop->post(on_submit);
  return RequestId(submitted.size());
}

request::Ending FakeService::ending(const Submitted& from) const {
  request::Ending ending;
  ending.ok = true;
  ending.usage = {.prompt_tokens = static_cast<uint32_t>(from.request.prompt.size()),
                  .completion_tokens = from.sent,
                  .cached_tokens = 1};
  ending.trace.prefill_instance = "prefill-0";
  ending.trace.decode_instance = "decode-0";
  ending.trace.kv_bytes_moved = 4096;
  ending.trace.hidden_share = 0.5;
  ending.trace.ttft_s = 0.25;
  ending.trace.longest_gap_s = 0.125;
  ending.trace.logits_digest = 0xabc;
  return ending;
}

request::Ending FakeService::finish_early(RequestId id, uint32_t delivered) {
  Submitted& from = submitted.at(id.value - 1);
  CHECK(from.observer != nullptr);
  from.observer = nullptr;
  finished_early.push_back({id, delivered});
  return ending(from);
}

void FakeService::cancel(RequestId id, uint32_t delivered) {
  Submitted& from = submitted.at(id.value - 1);
  CHECK(from.observer != nullptr);
  from.observer = nullptr;
  cancelled.push_back({id, delivered});
}

void FakeService::emit(const std::vector<uint32_t>& ids, size_t per_step) {
  Submitted& from = newest();
  for (size_t at = 0; at < ids.size() && from.observer != nullptr; at += per_step) {
    std::vector<request::TokenEvent> events;
    for (size_t i = at; i < std::min(ids.size(), at + per_step); ++i) {
      events.emplace_back();
      events.back().index = from.sent++;
      events.back().id = ids[i];
    }
    from.observer->on_tokens(events);
  }
}

void FakeService::end(request::FinishReason reason) {
  Submitted& from = newest();
  if (from.observer == nullptr) return;
  request::Ending ended = ending(from);
  ended.reason = reason;
  std::exchange(from.observer, nullptr)->on_end(ended);
}

void FakeService::fail(Error error) {
  Submitted& from = newest();
  if (from.observer == nullptr) return;
  request::Ending ended;
  ended.error = std::move(error);
  std::exchange(from.observer, nullptr)->on_end(ended);
}

GatewayFixture::GatewayFixture(FixtureOptions options)
    : tokenizer_(byte_tokenizer(options.add_bos)),
      template_(toy_template()),
      log_({.instance = "coordinator", .level = telemetry::LogLevel::kOff}) {
  service.loop = &loop_;
  gateway_ = std::make_unique<Gateway>(
      GatewayDeps{.loop = loop_,
                  .service = service,
                  .model = {.tokenizer = tokenizer_,
                            .chat_template = options.with_template ? &template_ : nullptr,
                            .no_chat_reason = "it has no chat template",
                            .max_context = options.max_context},
                  .registry = registry_,
                  .metrics = metrics_,
                  .log = log_,
                  .rng = rng_},
      GatewayOptions{.model_alias = "org/smol",
                     .unix_time_s = [] { return int64_t{1234567890}; },
                     .before_scrape = {},
                     .max_pending_bytes = options.max_pending_bytes});
  http::HttpServerOptions server;
  server.limits.client_stall = options.client_stall;
  server_ = std::make_unique<http::HttpServer>(
      loop_, server, [this](const http::HttpRequest& request, http::ResponseWriterPtr writer) {
        gateway_->handle(request, std::move(writer));
      });
  thread_ = std::thread([this] { loop_.run(); });
}

GatewayFixture::~GatewayFixture() {
  loop_.stop();
  thread_.join();
  server_.reset();
  gateway_.reset();
}

void GatewayFixture::on_loop(const std::function<void()>& action) {
  std::promise<void> done;
  loop_.post([&] {
    action();
    done.set_value();
  });
  done.get_future().wait();
}

bool GatewayFixture::eventually(const std::function<bool()>& condition) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  for (;;) {
    bool holds = false;
    on_loop([&] { holds = condition(); });
    if (holds) return true;
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

size_t GatewayFixture::num_calls() {
  size_t calls = 0;
  on_loop([&] { calls = gateway_->num_calls(); });
  return calls;
}

double GatewayFixture::sample(const std::string& series) {
  const std::string body = get("/metrics").body;
  const size_t at = body.find("\n" + series + " ");
  return at == std::string::npos ? -1 : std::atof(body.c_str() + at + series.size() + 2);
}

RawResponse GatewayFixture::post(const std::string& path, std::string_view body,
                                 const std::string& headers) {
  RawClient client(port());
  client.post(path, body, headers);
  return client.read_response();
}

RawResponse GatewayFixture::get(const std::string& path) {
  RawClient client(port());
  client.get(path);
  return client.read_response();
}

void GatewayFixture::script(std::vector<uint32_t> ids, request::FinishReason reason,
                            size_t per_step) {
  on_loop([&] {
    service.on_submit = [this, ids = std::move(ids), reason, per_step] {
      service.emit(ids, per_step);
      service.end(reason);
    };
  });
}

}  // namespace tandem::gateway
